"""Nests: cell-by-cell ops, expands, reductions and stores over one large space, a block of rows at a time, long rows in chunks.

A block is a register tile [rows, columns] whatever the rank of the space: leading dims count as rows. The same rules write its ops as
those of the user's own tiles. Rows that do not fit run in passes over chunks of columns: a pass folds what the next one needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from xdsl.ir import Operation, SSAValue

from tilejit import ops
from tilejit.backends.cuda.nests.members import Member, folds, is_wide, only_shape
from tilejit.backends.cuda.program import memory, rows
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.schedule import RowSchedule
from tilejit.backends.cuda.text import elementwise, numbers
from tilejit.backends.cuda.text.types import computed_in, padded, register
from tilejit.backends.cuda.text.values import Buffer, Dim, Scalar, Tile, Value, index
from tilejit.dtypes import INDEX
from tilejit.errors import UnsupportedFeatureError
from tilejit.passes.kernels import name_hint
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ShapedType

_KEPT, _DROPPED = ', eviction_policy="evict_last"', ', eviction_policy="evict_first"'
"""What the caches are told of cells that are read again soon, and of those that are not."""

# operands ---------------------------------------------------------------------------------------------------------------


def merged(buffer: Buffer, lead: int) -> Buffer | None:
    """A buffer as rows and columns: its last dim, and all others in one; None where strides do not allow it."""
    if buffer.rank == 1:
        return replace(buffer, dims=(Dim(index(1), index(0)), buffer.dims[0]))
    *outer, last = buffer.dims
    outer = [dim for dim in outer if dim.extent.const != 1]
    if not outer:
        return replace(buffer, dims=(Dim(index(1), index(0)), last))
    for dim, inner in itertools.pairwise(outer):
        if not numbers.same(dim.stride, numbers.mul(inner.stride, inner.extent)):
            return None
    rows_ = numbers.product(dim.extent for dim in outer)
    return replace(buffer, dims=(Dim(rows_, outer[-1].stride), last))


@dataclass
class Nest:
    """One nest inside a body: `shape` is its space."""

    body: Body
    members: Sequence[Member]
    shape: tuple[Scalar, ...]
    schedule: RowSchedule
    outputs: dict[SSAValue, Buffer] = field(default_factory=dict[SSAValue, Buffer])
    """Where values go that are used outside."""
    targets: dict[Operation, Buffer] = field(default_factory=dict[Operation, Buffer])
    """The windows that stores write, checked by whoever made the nest."""
    handed: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Results of groups whose members all are in this nest, and the members they stand for."""

    def __post_init__(self) -> None:
        self.inside: set[SSAValue] = {op.results[0] for op in self.members if isinstance(op, d.ApplyOp)}
        self.inside |= {result for result, member in self.handed.items() if member in self.inside}
        self.rows = numbers.product(self.shape[:-1])
        self.columns = self.shape[-1]
        self.values: dict[SSAValue, Tile] = {}
        self.last: bool | None = None
        """Where rows are read several times: whether this is the last time."""

    # a block of rows ------------------------------------------------------------------------------------------------------

    def emit(self, first_row: Scalar, first_column: Scalar | None = None) -> None:
        """Write everything for the block of rows from `first_row` on, or only for its columns from `first_column` on."""
        body = self.body
        saved, body.nest = body.nest, True
        here = self.schedule.rows
        self.first = first_row
        rest = numbers.sub(self.rows, first_row)
        self.here = body.named("rows", numbers.minimum(rest, index(here)))
        if isinstance(self.rows.const, int) and self.rows.const % here == 0:
            self.here = index(here)
        if first_column is not None:
            self._block(first_column)
        elif self.schedule.chunked:
            self._passes()
        else:
            self._columns(index(0), self.columns, self.members)
        body.nest = saved

    def _block(self, first: Scalar) -> None:
        """All members for one block of columns. Masks of an odd number of cells would part vectors: in a line of so many only the last block has them."""
        size, width, columns = self._size(first), self.schedule.columns, self.columns.const
        if not isinstance(columns, int) or columns % 16 == 0 or self.rows.const != 1 or size.const is not None:
            self._columns(first, size, self.members)
            return
        with self.body.out.block(f"if {size.text} == {width}:"):
            self._columns(first, index(width), self.members)
        with self.body.out.block("else:"):
            self._columns(first, size, self.members)

    def _columns(self, first: Scalar, size: Scalar, members: Sequence[Member]) -> None:
        """All `members` for one block of columns."""
        width = self.schedule.columns if self.schedule.chunked else _constant(self.columns)
        loaded: dict[SSAValue, Tile] = {}
        for op in members:
            self._bind(op, first, size, width, loaded)
            if isinstance(op, d.StoreOp):
                self._store(op, self.body.values[op.value], first)
                continue
            self._apply(op)
            self._keep(op, first)

    def _apply(self, op: d.ApplyOp) -> None:
        from tilejit.backends.cuda.rules import ROWS

        rule = ROWS[op.op]
        assert not isinstance(rule, str)
        if op.span is not None:
            self.body.out.span = op.span
        (made,) = rule(self.body, op)
        assert isinstance(made, Tile)
        self._made(op.results[0], made)

    def _made(self, result: SSAValue, made: Tile) -> None:
        found = self.body.define(result, made)
        assert isinstance(found, Tile)
        self.values[result] = found
        for alias, member in self.handed.items():
            if member is result:
                self.body.values[alias] = found

    def _owner(self, value: SSAValue) -> Operation | None:
        """The member that makes a value."""
        owner = self.handed.get(value, value).owner
        return owner if isinstance(owner, d.ApplyOp) else None

    def _keep(self, op: d.ApplyOp, first: Scalar) -> None:
        """Write a result that is used outside."""
        output = self.outputs.get(op.results[0])
        if output is not None:
            tile = self.body.values[op.results[0]]
            assert isinstance(tile, Tile)
            self._write(tile, output, first)

    def _bind(self, op: Member, first: Scalar, size: Scalar, width: int, loaded: dict[SSAValue, Tile]) -> None:
        """Put blocks of the operands that come from outside where the rules look for them."""
        for operand in op.operands if isinstance(op, d.ApplyOp) else [op.value]:
            if operand in self.inside or not isinstance(d.type_of(operand), ShapedType):
                continue
            if isinstance(op, d.ApplyOp) and only_shape(op, operand):
                shape = (self.schedule.rows, width if d.shaped_type(operand).shape[-1] != 1 else 1)
                self.body.values[operand] = Tile("", d.shaped_type(operand).dtype, shape, (self.here, size if shape[1] != 1 else index(1)))
                continue
            if operand not in loaded:
                loaded[operand] = self._load(operand, first, size, width)
            self.body.values[operand] = loaded[operand]

    def _load(self, operand: SSAValue, first: Scalar, size: Scalar, width: int) -> Tile:
        source = self.sources[operand] if operand in self.sources else self._source(operand)
        hint = name_hint(operand)
        flat = self._as_rows(source)
        if flat is not None:
            one_row, one_column = flat.dims[0].extent.const == 1 and self.rows.const != 1, flat.dims[1].extent.const == 1
            shape = (1 if one_row else self.schedule.rows, 1 if one_column else width)
            starts = (index(0) if one_row else self.first, index(0) if one_column else first)
            valid = (index(1) if one_row else self.here, index(1) if one_column else size)
            kept = "" if self.last is None else _KEPT if one_row or not self.last else _DROPPED
            return self.body.load_tile(flat, starts, shape, valid, hint, options=kept)
        return self._gathered(source, first, size, width, hint)

    sources: dict[SSAValue, Buffer] = field(default_factory=dict[SSAValue, Buffer])

    def _source(self, operand: SSAValue) -> Buffer:
        self.sources[operand] = self.body.in_memory(operand)
        return self.sources[operand]

    def _as_rows(self, buffer: Buffer) -> Buffer | None:
        """A buffer whose rows are those of the space, or a single row."""
        lead = buffer.shape[:-1]
        own = self.shape[len(self.shape) - len(lead) - 1 : -1]
        alone = all(extent.const == 1 for extent in lead)
        stretched = any(extent.const == 1 and space.const != 1 for extent, space in zip(lead, own, strict=True))
        missing = len(lead) + 1 < len(self.shape) and any(extent.const != 1 for extent in self.shape[: len(self.shape) - len(lead) - 1])
        if alone:
            return replace(buffer, dims=(Dim(index(1), index(0)), buffer.dims[-1]))
        return None if stretched or missing else merged(buffer, len(lead))

    def _gathered(self, source: Buffer, first: Scalar, size: Scalar, width: int, hint: str | None) -> Tile:
        """Rows that lie anywhere: the index of each leading dim from the number of the row."""
        from tilejit.backends.cuda.indexed.move import Cells, fetch

        body, height = self.body, self.schedule.rows
        at = self._row_indices(source.rank - 1)
        column = f"({first.text} + {body.out.arange(padded(width))})[None, :]" if source.shape[-1].const != 1 else "0"
        wide = 1 if source.shape[-1].const == 1 else width
        where = memory.mask(body.out, (height, wide), (self.here, size if wide != 1 else index(1)))
        cells = Cells((), (height, padded(wide)), where)
        text = fetch(body, source, [*at, column], cells)
        return Tile(body.out.let(hint, text), source.dtype, (height, wide), (self.here, size if wide != 1 else index(1)), zeros=True)

    def _row_indices(self, count: int) -> list[str]:
        """The indices of the last `count` leading dims of each row of the block."""
        body = self.body
        row = body.out.let("row", f"({self.first.text} + {body.out.arange(self.schedule.rows)})[:, None]")
        lead = self.shape[:-1]
        found: list[str] = []
        for axis in range(len(lead) - count, len(lead)):
            inner = numbers.product(lead[axis + 1 :])
            text = row if inner.const == 1 else f"({row} // {inner.text})"
            found.append(text if axis == 0 else f"({text} % {lead[axis].text})")
        return found

    def _store(self, op: d.StoreOp, value: Value, first: Scalar) -> None:
        assert isinstance(value, Tile)
        self.body.out.span = op.span or self.body.out.span
        self._write(value, self.targets[op], first, bool(op.static("atomic")))

    def _write(self, tile: Tile, target: Buffer, first: Scalar, atomic: bool = False) -> None:
        tile = _spread_out(tile, self.schedule.rows, target, self)
        flat = self._as_rows(target)
        if flat is None:
            if atomic:
                raise UnsupportedFeatureError("CUDA does not add to a tensor of these strides", span=self.body.out.span, help="add to a tensor without gaps")
            self._scattered(tile, target, first)
            return
        starts = (
            index(0) if flat.dims[0].extent.const == 1 and self.rows.const != 1 else self.first,
            index(0) if tile.shape[1] == 1 and target.shape[-1].const == 1 else first,
        )
        self.body.store_tile(tile, flat, starts, atomic=atomic)

    def _scattered(self, tile: Tile, target: Buffer, first: Scalar) -> None:
        body = self.body
        at = self._row_indices(target.rank - 1)
        column = f"({first.text} + {body.out.arange(tile.padded[1])})[None, :]"
        text = target.pointer if target.offset.const == 0 else f"{target.pointer} + {target.offset.text}"
        for place, dim in zip([*at, column], target.dims, strict=True):
            text += f" + {place}" if dim.stride.const == 1 else f" + {place} * {dim.stride.text}"
        body.order.before_store(body.out, target.root)
        where = memory.mask(body.out, tile.shape, tile.valid)
        if target.good is not None:
            where = f"({where}) & {target.good}" if where is not None else f"tl.broadcast_to({target.good}, {tile.padded})"
        body.out.line(memory.store_line(body.out, text, body.converted(tile, target.dtype), where, target.dtype))

    # long rows --------------------------------------------------------------------------------------------------------------

    def _passes(self) -> None:
        """One loop over the chunks of a row per level of reductions; what a pass needs of earlier ones it computes again."""
        levels = self._levels()
        narrow: set[SSAValue] = {op.results[0] for op in self.members if isinstance(op, d.ApplyOp) and d.shaped_type(op.results[0]).shape[-1] == 1}
        most = max(levels.values(), default=0)
        for level in range(most + 1):
            self.last = level == most if most else None
            now = [op for op in self.members if levels[op] == level]
            folded = [op for op in now if isinstance(op, d.ApplyOp) and folds(op) == "row"]
            for op in now:
                if op not in folded and not is_wide(op, narrow):
                    self._columns(index(0), index(1), [op])
            ends = [op for op in now if is_wide(op, narrow) and (isinstance(op, d.StoreOp) or op.results[0] in self.outputs)]
            if folded or ends:
                needed = self._needed([*folded, *ends], narrow)
                self._pass([op for op in self.members if op in needed and op not in folded], folded)
            for op in folded:
                self._keep(op, index(0))

    @property
    def readings(self) -> int:
        """How often rows are needed, one reduction after the other; 1 where nothing needs them whole after the last."""
        levels = self._levels()
        narrow: set[SSAValue] = {op.results[0] for op in self.members if isinstance(op, d.ApplyOp) and d.shaped_type(op.results[0]).shape[-1] == 1}
        last = max(levels.values(), default=0)
        return 1 + last if any(isinstance(op, d.StoreOp) and levels[op] == last and is_wide(op, narrow) for op in self.members) else 1

    def _levels(self) -> dict[Member, int]:
        """How many reductions come before each member."""
        made: dict[SSAValue, int] = {}
        levels: dict[Member, int] = {}
        for op in self.members:
            operands = op.operands if isinstance(op, d.ApplyOp) else [op.value]
            level = max((made[self.handed.get(value, value)] for value in operands if self.handed.get(value, value) in made), default=0)
            levels[op] = level
            if isinstance(op, d.ApplyOp):
                made[op.results[0]] = level + (folds(op) == "row")
        return levels

    def _needed(self, ends: Sequence[Member], narrow: set[SSAValue]) -> set[Member]:
        """Members that must run in a pass for `ends` to have their operands."""
        found: set[Member] = set(ends)
        todo = list(ends)
        while todo:
            op = todo.pop()
            for value in op.operands if isinstance(op, d.ApplyOp) else [op.value]:
                owner = self._owner(value)
                if value in self.inside and self.handed.get(value, value) not in narrow and isinstance(owner, d.ApplyOp) and owner not in found:
                    found.add(owner)
                    todo.append(owner)
        return found

    def _pass(self, members: Sequence[Member], folded: Sequence[d.ApplyOp]) -> None:
        body, width = self.body, self.schedule.columns
        kept = {op: self._start(op) for op in folded}
        start = body.out.fresh("column")
        columns = self.columns
        bounds = (0, columns.bounds[1]) if columns.bounds else None
        whole = columns.const == width
        with nullcontext() if whole else body.out.block(f"for {start} in range(0, {columns.text}, {width}):"):
            first = index(0) if whole else Scalar(start, INDEX, bounds)
            size = self._size(first)
            loaded: dict[SSAValue, Tile] = {}
            for op in [op for op in self.members if op in members or op in folded]:
                self._bind(op, first, size, width, loaded)
                if isinstance(op, d.StoreOp):
                    self._store(op, body.values[op.value], first)
                elif op in kept:
                    self._accumulate(op, kept[op], first, size)
                else:
                    self._apply(op)
                    self._keep(op, first)
        for op, names in kept.items():
            self._finish(op, names)

    def _size(self, first: Scalar) -> Scalar:
        """How many columns of a chunk there are."""
        columns, width = self.columns, self.schedule.columns
        if isinstance(columns.const, int) and columns.const % width == 0:
            return index(width)
        return self.body.named("size", numbers.minimum(numbers.sub(columns, first), index(width)))

    def _start(self, op: d.ApplyOp) -> tuple[str, str]:
        """Accumulators of a reduction: one cell per column of a chunk."""
        body, combine = self.body, str(ops.table()[op.op].attrs["combine"])
        compute = computed_in(d.shaped_type(op.args[0]).dtype)
        if combine == "sum" and not compute.is_float and compute.bits < 32:
            pass
        name = body.out.fresh(name_hint(op.results[0]) or combine)
        shape = f"({self.schedule.rows}, {self.schedule.columns},)"
        body.out.line(f"{name} = tl.full({shape}, {rows.neutral(combine, compute)}, {register(compute)})")
        places = ""
        if combine.startswith("arg"):
            places = body.out.fresh("places")
            body.out.line(f"{places} = tl.full({shape}, 2147483647, tl.int32)")
        return name, places

    def _accumulate(self, op: d.ApplyOp, names: tuple[str, str], first: Scalar, size: Scalar) -> None:
        body, combine = self.body, str(ops.table()[op.op].attrs["combine"])
        source = rows.operand(body, op.args[0])
        assert isinstance(source, Tile)
        compute = computed_in(source.dtype)
        text = elementwise.widen(body.out, source.text, source.dtype)
        width = self.schedule.columns
        steps = body.out.arange(width)
        if source.shape[1] == 1:
            text = f"tl.broadcast_to({text}, ({self.schedule.rows}, {width},))"
        if size.const != width:
            text = f"tl.where(({steps} < {size.text})[None, :], {text}, {rows.neutral(combine, compute)}).to({register(compute)})"
        name, places = names
        if combine.startswith("arg"):
            here = f"tl.broadcast_to(({first.text} + {steps})[None, :], ({self.schedule.rows}, {width},)).to(tl.int32)"
            if size.const != width:
                here = f"tl.where(({steps} < {size.text})[None, :], {here}, 2147483647)"
            body.out.line(f"{name}, {places} = {body.out.helper(combine + '_nan')}({name}, {places}, {text}, {here})")
            return
        body.out.line(f"{name} = {elementwise.combined(combine, compute, name, text)}")

    def _finish(self, op: d.ApplyOp, names: tuple[str, str]) -> None:
        """The accumulators folded to one cell per row."""
        body, combine = self.body, str(ops.table()[op.op].attrs["combine"])
        compute = computed_in(d.shaped_type(op.args[0]).dtype)
        dtype = rows.result_dtype(op)
        name, places = names
        valid = (self.here, index(1))
        if combine.startswith("arg"):
            top, found = body.out.fresh("top"), body.out.fresh("place")
            body.out.line(f"{top}, {found} = tl.reduce(({name}, {places}), 1, {body.out.helper(combine + '_nan')}, keep_dims=True)")
            made = Tile(found, dtype, (self.schedule.rows, 1), valid)
        else:
            text = elementwise.held(body.out, rows.fold(body, name, 1, combine, compute), dtype)
            made = Tile(text, dtype, (self.schedule.rows, 1), valid)
        self._made(op.results[0], made)


def _spread_out(tile: Tile, height: int, target: Buffer, nest: Nest) -> Tile:
    """A result that is the same in every row or column, as the whole block that is written."""
    rows_ = height if tile.shape[0] == 1 and nest.rows.const != 1 and any(e.const != 1 for e in target.shape[:-1]) else tile.shape[0]
    if rows_ == tile.shape[0]:
        return tile
    text = f"tl.broadcast_to({tile.text}, ({rows_}, {tile.padded[1]},))"
    return Tile(text, tile.dtype, (rows_, tile.shape[1]), (nest.here, tile.valid[1]))


def _constant(extent: Scalar) -> int:
    assert isinstance(extent.const, int)
    return extent.const
