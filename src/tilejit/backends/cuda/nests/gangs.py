"""Nests over rows too long for one program: a gang of programs holds a row in registers, each a part of it, and they tell each other what they folded.

So a row is read once, however many reductions follow each other. What a program tells lies in one word with the number of the row: whoever asks reads
until that number has come, and no other order of memory matters. Nobody waits for long: what the others told of a row is asked for after the next row
was begun, so that a gang has as many rows under way as there are reductions between load and store, and one more on its way from memory.

A maximum and the sum of the exponentials of what is left without it are told together: each program takes its own maximum off, and is corrected after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from xdsl.ir import SSAValue

from tilejit import ops
from tilejit.backends.cuda.nests.members import Member, folds, is_wide
from tilejit.backends.cuda.nests.nest import Nest
from tilejit.backends.cuda.program import rows
from tilejit.backends.cuda.schedule import RowSchedule
from tilejit.backends.cuda.text import elementwise, numbers
from tilejit.backends.cuda.text.types import computed_in, padded
from tilejit.backends.cuda.text.values import Scalar, Tile, index
from tilejit.backends.cuda.text.writer import Writer
from tilejit.dtypes import FP32, INDEX, INT32
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ShapedType

_WORD, _SLOTS = 8, 4
"""Bytes of what a program tells, and rows whose words lie side by side: a word is overwritten when nobody can still ask for it."""
_MOST_PARTS, _MOST_STAGES = 64, 2
"""Programs in a gang, all of which a warp asks at once; reductions one after the other, for each of which registers hold another row."""
_REGISTERS = {16: 80, 32: 128}
"""Of a thread at most, by the cells that it holds of a row, where one row is asked for while the next is begun: the more programs at once the better."""
_Key = SSAValue | tuple[str, SSAValue]
K = TypeVar("K")


def suits(members: Sequence[Member], few: bool) -> bool:
    """Whether a row is needed again after it was folded, or rows are too few for one program each, and what is folded goes into a word."""
    folded = [op for op in members if folds(op) == "row"]
    narrow: set[SSAValue] = {op.results[0] for op in members if isinstance(op, d.ApplyOp) and d.shaped_type(op.results[0]).shape[-1] == 1}
    ends = [op for op in members if isinstance(op, d.StoreOp) and is_wide(op, narrow)]
    return bool(folded and (ends or few)) and all(map(_tells, folded))


def _tells(op: Member) -> bool:
    assert isinstance(op, d.ApplyOp)
    return computed_in(d.shaped_type(op.args[0]).dtype) in (FP32, INT32) and not _combine(op).startswith("arg")


def _combine(op: d.ApplyOp) -> str:
    return str(ops.table()[op.op].attrs["combine"])


def schedule_of(columns: int, width: int, alone: bool) -> RowSchedule | None:
    """Parts of a row of so many columns of `width` bytes, as few as there can be; `alone`: one program has it all."""
    blocks = ((2048, 4), (4096, 8), (8192, 16)) if width < FP32.get_byte() else ((2048, 2), (4096, 4), (8192, 8), (16384, 16))
    for wide, warps in blocks if not alone else ((padded(columns), 8),):
        parts = -(-columns // wide)
        if parts <= _MOST_PARTS:
            own = -(-columns // parts)
            return RowSchedule(1, -(-own // 32) * 32 if parts > 1 else columns, True, warps, parts=parts)
    return None


@dataclass(frozen=True)
class _Online:
    """A maximum, and the sum of exponentials without it."""

    top: d.ApplyOp
    difference: d.ApplyOp
    power: d.ApplyOp
    sum: d.ApplyOp
    quotient: d.ApplyOp | None
    """What is left where the exponentials are only divided by their sum: one factor for each row does that."""


class Gang:
    """The text of a nest whose schedule shares rows out."""

    def __init__(self, nest: Nest) -> None:
        self.nest, self.body, self.out = nest, nest.body, nest.body.out
        self.pairs = self._online() if nest.body.options.fast_math else []
        hidden = {op for pair in self.pairs for op in (pair.difference, pair.power, pair.sum, pair.quotient) if op is not None}
        self.folded = [op for op in nest.members if isinstance(op, d.ApplyOp) and folds(op) == "row" and op not in hidden]
        self.stage: dict[Member, int] = {}
        self.known: dict[SSAValue, int] = {}
        """From which stage on a value is there."""
        self._place(hidden)
        self.last = max(self.known.values())
        self.word = {op: place for place, op in enumerate([*self.folded, *(pair.sum for pair in self.pairs)])}
        self.crossing = [self._crosses(stage) for stage in range(self.last)]

    @property
    def possible(self) -> bool:
        """Whether registers hold all rows that are under way."""
        return self.last <= _MOST_STAGES

    @property
    def options(self) -> dict[str, object]:
        """What Triton is asked for besides."""
        schedule = self.nest.schedule
        cells = padded(schedule.columns) // (32 * schedule.warps)
        return {"maxnreg": _REGISTERS[cells]} if self.last == 1 and cells in _REGISTERS else {}

    @property
    def told(self) -> int:
        """Bytes that a program tells of the rows under way."""
        return _SLOTS * _WORD * len(self.word)

    # what happens when --------------------------------------------------------------------------------------------------------

    def _values(self, op: Member) -> list[SSAValue]:
        """The operands of a member that are tiles, by the members or the memory they come from."""
        given = op.operands if isinstance(op, d.ApplyOp) else [op.value]
        return [self.nest.handed.get(value, value) for value in given if isinstance(d.type_of(value), ShapedType)]

    def _users(self, value: SSAValue) -> list[Member]:
        return [op for op in self.nest.members if value in self._values(op)]

    def _online(self) -> list[_Online]:
        found: list[_Online] = []
        for op in self.nest.members:
            if not isinstance(op, d.ApplyOp) or folds(op) != "row" or _combine(op) != "max" or d.shaped_type(op.args[0]).dtype is not FP32:
                continue
            difference = self._only(op, "row_expand_sub")
            power = self._only(difference, "exp") if difference is not None and self._values(difference) == [self._values(op)[0], op.results[0]] else None
            if difference is None or power is None or power.results[0] in self.nest.outputs:
                continue
            sums = [user for user in self._users(power.results[0]) if isinstance(user, d.ApplyOp) and folds(user) == "row"]
            if len(sums) == 1 and _combine(sums[0]) == "sum":
                found.append(_Online(op, difference, power, sums[0], self._quotient(power, sums[0])))
        return found

    def _quotient(self, power: d.ApplyOp, sum_: d.ApplyOp) -> d.ApplyOp | None:
        others = [user for user in self._users(power.results[0]) if user is not sum_]
        only = others[0] if len(others) == 1 and self._users(sum_.results[0]) == others and sum_.results[0] not in self.nest.outputs else None
        divides = isinstance(only, d.ApplyOp) and only.op == "row_expand_div" and self._values(only) == [power.results[0], sum_.results[0]]
        return only if divides and isinstance(only, d.ApplyOp) and d.shaped_type(only.results[0]).dtype is FP32 else None

    def _only(self, op: d.ApplyOp, name: str) -> d.ApplyOp | None:
        """The op of that name that is all that uses another."""
        users = self._users(op.results[0])
        only = users[0] if len(users) == 1 and op.results[0] not in self.nest.outputs else None
        return only if isinstance(only, d.ApplyOp) and only.op == name else None

    def _place(self, hidden: set[d.ApplyOp]) -> None:
        """The stage of each member: after as many reductions as come before it, stores after all of them."""
        for op in self.nest.members:
            if op in hidden:
                continue
            self.stage[op] = max((self.known.get(value, 0) for value in self._values(op)), default=0)
            if isinstance(op, d.ApplyOp):
                self.known[op.results[0]] = self.stage[op] + (op in self.folded)
                pair = next((pair for pair in self.pairs if pair.top is op), None)
                if pair is not None:
                    for made in (pair.power, pair.sum, *([pair.quotient] if pair.quotient else [])):
                        self.known[made.results[0]] = self.stage[op] + 1
        last = max(self.known.values())
        self.stage.update({op: last for op in self.stage if isinstance(op, d.StoreOp)})
        for op in reversed(self.nest.members):  # what needs nothing of a row is made where it is needed
            if isinstance(op, d.ApplyOp) and op in self.stage and not self._needs_row(op):
                wanted = [self.stage[user] for user in self._users(op.results[0]) if user in self.stage]
                self.stage[op] = self.known[op.results[0]] = min(wanted, default=last) if op.results[0] not in self.nest.outputs else last

    def _needs_row(self, op: Member) -> bool:
        """Whether a member depends on a row, directly or through others."""
        return any(self._needs_row(value.owner) if value in self.nest.inside else self._varies(value) for value in self._values(op))  # type: ignore[arg-type]

    def _crosses(self, stage: int) -> list[_Key]:
        """What is there by a stage and needed after it."""
        found: dict[_Key, None] = {}
        for op, when in self.stage.items():
            for value in self._values(op):
                if when > stage and (self.known.get(value, 0) <= stage if value in self.known else self._varies(value) and self._first_use(value) <= stage):
                    found[value] = None
        for value in self.nest.outputs:
            if self.known[value] <= stage:
                found[value] = None
        for pair in self.pairs:
            if self.stage[pair.top] == stage:
                found["own", pair.power.results[0]] = found["own", pair.top.results[0]] = None
        return list(found)

    def _first_use(self, value: SSAValue) -> int:
        return min(when for op, when in self.stage.items() if value in self._values(op))

    def _varies(self, value: SSAValue) -> bool:
        """Whether an operand from memory has other cells in every row."""
        nest = self.nest
        source = nest.sources[value] if value in nest.sources else nest._source(value)
        return any(extent.const != 1 for extent in source.shape[:-1]) or nest.rows.const == 1

    # writing ------------------------------------------------------------------------------------------------------------------

    def emit(self) -> None:
        """Begin as many rows as are under way, then take rows in turn."""
        nest, out = self.nest, self.out
        self.parts, self.width = parts, width = nest.schedule.parts, nest.schedule.columns
        program = out.program()
        self.me, self.gang = out.let("me", f"{program} % {parts}"), out.let("gang", f"{program} // {parts}")
        self.gangs = out.let("gangs", f"tl.num_programs(0) // {parts}")
        assert isinstance(nest.columns.const, int)
        self.first = Scalar(out.let("first", f"{self.me} * {width}"), INDEX, (0, (parts - 1) * width))
        whole = nest.columns.const == parts * width
        self.size = index(width) if whole else self.body.named("size", numbers.minimum(numbers.sub(nest.columns, self.first), index(width)))
        self.board = out.parameter("board", "barrier", "*i64", None)
        saved, self.body.nest = self.body.nest, True
        self.shared = self._read([value for value in self._operands() if not self._varies(value)], self._row(self.gang), index(1))
        self.ahead = [value for value in self._operands() if self._varies(value) and self._first_use(value) == 0]
        loaded = self._read(self.ahead, self._row(self.gang), index(1))
        carried: list[dict[_Key, Tile]] = [{} for _ in range(self.last)]
        for begun in range(self.last):
            turn = out.let("turn", f"tl.full((), {begun + 1 - self.last}, tl.int32)")
            loaded, carried = self._turn(self.gang, turn, begun - self.last, begun, loaded, carried)
        self._rows(loaded, carried)
        self.body.nest = saved

    def _rows(self, loaded: dict[SSAValue, Tile], carried: list[dict[_Key, Tile]]) -> None:
        """The loop: what a turn leaves for the next one is carried."""
        out, nest = self.out, self.nest
        row_held, held = _named(out, loaded), [_named(out, tiles) for tiles in carried]
        turn, row = out.fresh("turn"), out.fresh("row")
        out.line(f"{turn} = tl.full((), 0, tl.int32)")
        with out.block(f"for {row} in range({self.gang}, {nest.rows.text}, {self.gangs}):"):
            out.line(f"{turn} += 1")
            following, made = self._turn(row, turn, 0, self.last, row_held, held)
            for before, after in reversed(list(zip(held, made, strict=True))):  # what one stage leaves may come from the one before it
                _hand_over(out, before, after)
            _hand_over(out, row_held, following)

    def _turn(
        self, row: str, turn: str, shift: int, active: int, loaded: dict[SSAValue, Tile], carried: list[dict[_Key, Tile]]
    ) -> tuple[dict[SSAValue, Tile], list[dict[_Key, Tile]]]:
        """One step of the stages up to `active`, each for its row: what was loaded for the next step, and what each stage leaves for the one after it."""
        made: list[dict[_Key, Tile]] = [{} for _ in range(self.last)]
        following: dict[SSAValue, Tile] = {}
        for stage in range(active + 1):
            here = self._at(row, shift + self.last - stage)
            number = f"({turn} + {self.last - stage})" if stage != self.last else turn
            tiles = {**self.shared, **(loaded if stage == 0 else {key: tile for key, tile in carried[stage - 1].items() if isinstance(key, SSAValue)})}
            self._stage(stage, here, number, tiles, carried[stage - 1] if stage else {})
            if stage < self.last:
                made[stage] = {key: self._now(key, tiles) for key in self.crossing[stage]}
            if stage == 0:  # not before: the registers of the row that was loaded last time are free now, and the others are waited for only after this
                ahead = self._at(row, shift + self.last + 1)
                following = self._read(self.ahead, ahead, self._there(ahead))
        return following, made

    def _now(self, key: _Key, tiles: dict[SSAValue, Tile]) -> Tile:
        if isinstance(key, tuple):
            return self.own[key[1]]
        if key in tiles:
            return tiles[key]
        found = self.body.values[key]
        assert isinstance(found, Tile)
        return found

    def _stage(self, stage: int, row: Scalar, turn: str, tiles: dict[SSAValue, Tile], before: dict[_Key, Tile]) -> None:
        nest = self.nest
        words = self.out.let("words", f"{self.board} + ({self.gang} * {_SLOTS} + {turn} % {_SLOTS}) * {len(self.word) * self.parts}")
        for key, tile in before.items():
            if isinstance(key, SSAValue) and key in self.known:
                nest._made(key, tile)
        for op in self.folded if stage else []:
            if self.stage[op] == stage - 1:
                self._hear(op, words, turn, before)
        self.own: dict[SSAValue, Tile] = {}
        now = [op for op in nest.members if self.stage.get(op) == stage]
        late = [value for op in now for value in self._values(op) if value not in nest.inside and value not in tiles]
        if late:
            tiles.update(self._read(list(dict.fromkeys(late)), row, self._there(row) if stage < self.last else index(1)))
        nest.first, nest.here = row, index(1)
        for op in now:
            nest._bind(op, self.first, self.size, self.width, tiles)
            if isinstance(op, d.StoreOp):
                nest._store(op, self.body.values[op.value], self.first)
            elif op in self.folded:
                self._tell(op, words, turn, tiles)
            else:
                nest._apply(op)
        for value in nest.outputs if stage == self.last else []:
            assert isinstance(value.owner, d.ApplyOp)
            nest._keep(value.owner, self.first)

    # rows and memory ------------------------------------------------------------------------------------------------------------

    def _row(self, text: str) -> Scalar:
        return Scalar(text, INDEX, self.nest.rows.bounds)

    def _at(self, row: str, rows_on: int) -> Scalar:
        """The row that many of the gang's rows further on."""
        return self._row(row if rows_on == 0 else self.out.let("after", f"{row} + {self.gangs}" if rows_on == 1 else f"{row} + {rows_on} * {self.gangs}"))

    def _there(self, row: Scalar) -> Scalar:
        """1 where there is such a row, else 0 or less."""
        return Scalar(self.out.let("there", f"tl.minimum({self.nest.rows.text} - {row.text}, 1)"), INDEX, (-(1 << 31), 1))

    def _operands(self) -> list[SSAValue]:
        """What the members read from memory."""
        values = dict.fromkeys(value for op in self.stage for value in self._values(op))
        return [value for value in values if value not in self.nest.inside]

    def _read(self, operands: Sequence[SSAValue], row: Scalar, here: Scalar) -> dict[SSAValue, Tile]:
        """This program's part of operands; of a row that is not there, zeros."""
        nest = self.nest
        nest.first, nest.here = row, here
        found = {operand: nest._load(operand, self.first, self.size, self.width) for operand in operands}
        return {operand: replace(tile, valid=(index(1), *tile.valid[1:])) for operand, tile in found.items()}

    # folds ----------------------------------------------------------------------------------------------------------------------

    def _tell(self, op: d.ApplyOp, words: str, turn: str, tiles: dict[SSAValue, Tile]) -> None:
        """What this program folds of its part."""
        body, out = self.body, self.out
        out.span = op.span or out.span
        source = rows.operand(body, op.args[0])
        assert isinstance(source, Tile)
        compute = computed_in(source.dtype)
        mine = Tile(out.let("mine", rows.reduce_tile(body, op, source, 1, _combine(op), compute).text), compute, (1, 1), (index(1), index(1)))
        self._say(op, mine.text, words, turn)
        pair = next((pair for pair in self.pairs if pair.top is op), None)
        if pair is None:
            return
        # Where nothing is larger than minus infinity, its own maximum cannot be taken off.
        self.nest._made(op.results[0], replace(mine, text=f'tl.where({mine.text} == float("-inf"), 0.0, {mine.text})'))
        for member in (pair.difference, pair.power):
            self.nest._bind(member, self.first, self.size, self.width, tiles)
            self.nest._apply(member)
        power = body.values[pair.power.results[0]]
        assert isinstance(power, Tile)
        self.own[pair.power.results[0]], self.own[op.results[0]] = power, mine
        self._say(pair.sum, rows.reduce_tile(body, pair.sum, power, 1, "sum", compute).text, words, turn)

    def _say(self, op: d.ApplyOp, text: str, words: str, turn: str) -> None:
        kind = "float" if computed_in(d.shaped_type(op.args[0]).dtype).is_float else "whole"
        self.out.line(f'{self.out.helper("tell")}({words} + {self.word[op] * self.parts} + {self.me}, {text}, {turn}, "{kind}")')

    def _heard(self, op: d.ApplyOp, words: str, turn: str) -> str:
        """What all programs told, and neutral cells."""
        out, compute = self.out, computed_in(d.shaped_type(op.args[0]).dtype)
        steps, kind = out.arange(padded(self.parts)), "float" if compute.is_float else "whole"
        inside = f"({steps} < {self.parts})[None, :]"
        heard = f'{out.helper("hear")}({words} + {self.word[op] * self.parts} + {steps}[None, :], {inside}, {turn}, "{kind}")'
        return out.let("everyone", f"tl.where({inside}, {heard}, {rows.neutral(_combine(op), compute)})")

    def _hear(self, op: d.ApplyOp, words: str, turn: str, before: dict[_Key, Tile]) -> None:
        """What all make of what they folded."""
        body, out = self.body, self.out
        out.span = op.span or out.span
        combine, dtype = _combine(op), rows.result_dtype(op)
        everyone = self._heard(op, words, turn)
        folded = rows.fold(body, everyone, 1, combine, computed_in(d.shaped_type(op.args[0]).dtype))
        self.nest._made(op.results[0], Tile(elementwise.held(out, folded, dtype), dtype, (1, 1), (index(1), index(1))))
        pair = next((pair for pair in self.pairs if pair.top is op), None)
        if pair is None:
            return
        top = body.values[op.results[0]]
        assert isinstance(top, Tile)
        own, power = before["own", op.results[0]], before["own", pair.power.results[0]]
        sums = self._heard(pair.sum, words, turn)
        exp = ops.table()["exp"]
        factors = elementwise.apply(out, exp, FP32, [f"({everyone} - {top.text})"], {})
        total = out.let("total", f"tl.sum({sums} * {factors}, 1, keep_dims=True)")
        self.nest._made(pair.sum.results[0], Tile(total, FP32, (1, 1), (index(1), index(1))))
        factor = out.let("factor", elementwise.apply(out, exp, FP32, [f"({own.text} - {top.text})"], {}))
        if pair.quotient is not None:
            scale = out.let("scale", f"tl.div_rn({factor}, {total})")
            self.nest._made(pair.quotient.results[0], replace(power, text=f"({power.text} * {scale})"))
            return
        self.nest._made(pair.power.results[0], replace(power, text=f"({power.text} * {factor})"))


def _hand_over(out: Writer, before: Mapping[K, Tile], after: Mapping[K, Tile]) -> None:
    """What a turn made is what the next one has."""
    for key, tile in before.items():
        out.line(f"{tile.text} = {after[key].text}")


def _named(out: Writer, tiles: Mapping[K, Tile]) -> dict[K, Tile]:
    """Tiles under names of their own, for a loop to change."""
    found: dict[K, Tile] = {}
    for key, tile in tiles.items():
        name = out.fresh("held")
        out.line(f"{name} = {tile.text}")
        found[key] = replace(tile, text=name)
    return found
