"""The platform `sanitize`: the reference, with a shadow of all memory that knows which cells hold something and who touched them.

Cells that hold nothing may be moved and computed with: only what depends on them and leaves the kernel, or decides what it does, is
reported, at the place that first used them. See shadow.py (memory), partly.py (values), depends.py (what an operator makes of them), findings.py (words).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from tilejit import ops
from tilejit.backends.base import CompileOptions
from tilejit.backends.reference.depends import Arguments, Unknown, dependent, poisoned
from tilejit.backends.reference.findings import Watch
from tilejit.backends.reference.interpreter import Frame, ReferenceExecutable, argument
from tilejit.backends.reference.memory import Buffer, NDArray, Value, shaped
from tilejit.backends.reference.partly import Application, PartlyDefined, remembered
from tilejit.backends.reference.shadow import DEFINED, NOTHING, Access, Kind, Shadow, Turn, loops
from tilejit.backends.reference.tasks import BlockPlace
from tilejit.errors import TilejitError
from tilejit.ops.elementwise import value_dtype
from tilejit.ops.evaluate import ArrayValue, evaluate
from tilejit.ops.facts import Effect, Fails
from tilejit.ops.spec import OpSpec
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import written_by
from tilejit.tile_ir.build import apply_args
from tilejit.tile_ir.cross_core import Member, Run, Start
from tilejit.tile_ir.program import Program
from tilejit.tile_ir.transfers import sync_class
from tilejit.types.enums import ForKind
from tilejit.types.values import TENSOR_SPACE, full_tile


class SanitizedExecutable(ReferenceExecutable):
    """A program that is interpreted and watched."""

    def __init__(self, program: Program, options: CompileOptions | None = None) -> None:
        super().__init__(program, options)
        everything = [op for function in program.functions.values() for op in function.walk()]
        sizes = [shaped(op.results[0]).dtype.get_byte() for op in everything if isinstance(op, d.ViewOp | d.StridedOp)]
        self.grain = min(sizes, default=1 << 10)
        """Bytes that the smallest view of any memory takes at a time."""
        self._windows = {op.window for op in everything if isinstance(op, d.CommOp)}

    def run(self, entry: str, arguments: Sequence[Any]) -> tuple[object, ...]:
        watch, function = Watch(), self.function(entry)
        end = d.end_of(function.body.block, d.ReturnOp)
        values = [argument(param.type, given) for param, given in zip(function.params, arguments, strict=True)]
        for at, (param, block_argument) in enumerate(zip(function.params, function.body.block.args, strict=True)):
            if isinstance(value := values[at], Buffer):
                empty = param.direction == "Out" and block_argument not in self._windows
                values[at] = replace(value, shadow=Shadow(value.array, self.grain, NOTHING if empty else DEFINED, param.name, param.direction == "Out"))
        returned: Sequence[Value] = ()
        failure: TilejitError | None = None
        try:
            returned = self.start(entry, values, BlockPlace(turn=Turn(watch=watch)))
        except TilejitError as error:
            failure = error
        for operand, value in zip(end.values, returned, strict=False):
            watch.leaves(end, operand, *remembered(value))
        watch.finish(failure)
        return tuple(value.array if isinstance(value, Buffer) else value.box if isinstance(value, ArrayValue) else value for value in returned)

    def invoke(self, function: d.FuncOp, arguments: Sequence[Value], place: BlockPlace) -> list[Value]:
        return SanitizedFrame(self, place, function.symbol).block(function.body.block, arguments)


class SanitizedFrame(Frame):
    """One running function."""

    machine: SanitizedExecutable

    @property
    def turn(self) -> Turn:
        assert self.place.turn is not None
        return self.place.turn

    @property
    def watch(self) -> Watch:
        return self.turn.root.watch

    def step(self, op: Operation) -> Sequence[Value]:
        rule = _RULES.get(type(op))
        return super().step(op) if rule is None else rule(self, op)

    # who runs beside whom -----------------------------------------------------------------------------------------------

    def turns(self, op: d.ForOp, indices: range) -> Iterable[int]:
        return self._parallel(indices) if op.static("kind") == ForKind.Parallel.value else indices

    def _parallel(self, indices: range) -> Iterator[int]:
        outer, loop = self.place, next(loops)
        for index in indices:
            self.place = replace(outer, turn=Turn(outer.turn, loop, index))
            yield index
        self.place = outer

    def blocks(self, count: int) -> Iterator[BlockPlace]:
        outer, loop = self.turn, next(loops)
        for place in super().blocks(count):
            yield replace(place, turn=Turn(outer, loop, place.index))

    def _part_of_run(self, op: Start, run: Run) -> Sequence[Value]:
        if op is run.last:
            self.loop = next(loops)
        return super()._part_of_run(op, run)

    def member(self, member: Member, place: BlockPlace) -> Sequence[Value]:
        """The lanes of a block, and the kernels that run in it side by side, wait for each other: they count as one."""
        return super().member(member, place if member.blocks is None else replace(place, turn=Turn(self.turn, self.loop, place.index)))

    def _touch(self, op: d.TileOp, buffer: SSAValue, cells: NDArray, kind: Kind, where: NDArray | None = None) -> None:
        shadow, path = self.handle(buffer).shadow, self.turn.path
        if shadow is not None and path and cells.size:
            own = Access(path, op, kind)
            other = self.watch.accesses.note(shadow, cells, own, where)
            if other is not None:
                self.watch.meeting(op, buffer, own, other)

    # memory -------------------------------------------------------------------------------------------------------------

    def create(self, op: d.CreateOp) -> Sequence[Value]:
        (made,) = super().create(op)
        return [replace(made, shadow=Shadow(made.array, self.machine.grain, NOTHING if op.static("init") is None else DEFINED))]

    def load(self, op: d.LoadOp) -> Sequence[Value]:
        (value,) = super().load(op)
        cells = self.loaded(op)
        self._touch(op, op.buffer, cells, Kind.Read)
        found = self._read_states(op, op.buffer, cells)
        if found is None:
            return [value]
        states = np.zeros(value.data.shape, np.int32)
        states[tuple(slice(0, size) for size in cells.shape)] = found
        return [PartlyDefined(value.data, value.valid, states)]

    def _read_states(self, op: d.TileOp, buffer: SSAValue, cells: NDArray) -> NDArray | None:
        """The states of what is read from memory; None: everything holds something."""
        shadow = self.handle(buffer).shadow
        if shadow is None:
            return None
        states = shadow.state(cells).max(axis=-1)
        if not states.any():
            return None
        return np.where(states == NOTHING, self.watch.unwritten(op, buffer, shadow, states), states)

    def store(self, op: d.StoreOp) -> Sequence[Value]:
        cells, kind = self.stored(op), Kind.Add if op.static("atomic") else Kind.Write
        found = self._stored_states(op)  # before they are others: what is stored may be a view of the same memory
        super().store(op)
        self._touch(op, op.buffer, cells, kind)
        states = np.zeros(cells.shape, np.int32) if found is None else found.reshape(cells.shape)
        if kind is Kind.Add:
            states = np.maximum(states, self._sum_states(op, cells))
        self._written(op, op.buffer, op.value, cells, states)
        return []

    def _stored_states(self, op: d.StoreOp) -> NDArray | None:
        """The states of what a store writes: a tensor is read for that, a tile has them."""
        value = self.values[op.value]
        if isinstance(value, Buffer):
            self._touch(op, op.value, value.array, Kind.Read)
            return self._read_states(op, op.value, value.array)
        return remembered(value)[1]

    def _sum_states(self, op: d.StoreOp | d.AtomicOp, cells: NDArray) -> NDArray:
        """The states of cells to which something is added: what was there is part of the sum, but outputs may be taken as zeros."""
        shadow = self.handle(op.buffer).shadow
        found = None if shadow is None or shadow.parameter is not None else self._read_states(op, op.buffer, cells)
        return np.zeros(cells.shape, np.int32) if found is None else found

    def _written(self, op: d.TileOp, buffer: SSAValue, value: SSAValue, cells: NDArray, states: NDArray) -> None:
        """Memory gets states; what is the caller's is noticed."""
        shadow = self.handle(buffer).shadow
        if shadow is None:
            return
        if shadow.parameter is not None and states.any():
            self.watch.notice(np.where(states == NOTHING, self.watch.unset(op, value, states), states))
            states = np.zeros_like(states)
        shadow.state(cells)[...] = states[..., None]

    def read(self, op: d.ReadOp) -> Sequence[Value]:
        result = super().read(op)
        source = self.values[op.source]
        cell = self.integers(op.indices)
        if isinstance(source, Buffer):
            place = source.array[(*(slice(index, index + 1) for index in cell),)]
            self._touch(op, op.source, place, Kind.Read)
            states = self._read_states(op, op.source, place)
            if states is not None:
                self.watch.notice(states)
        elif any(index >= extent for index, extent in zip(cell, source.valid, strict=True)):
            self.watch.notice(np.array(self.watch.outside(op, op.source, source.valid)))
        elif isinstance(source, PartlyDefined) and (state := source.states[cell]):
            self.watch.notice(np.array(self.watch.unset(op, op.source, source.states) if state == NOTHING else state))
        return result

    def write(self, op: d.WriteOp) -> Sequence[Value]:
        super().write(op)
        place = self._place(op)
        self._touch(op, op.buffer, place, Kind.Write)
        self._written(op, op.buffer, op.value, place, np.zeros(place.shape, np.int32))
        return []

    def atomic(self, op: d.AtomicOp) -> Sequence[Value]:
        result = super().atomic(op)
        place = self._place(op)
        self._touch(op, op.buffer, place, Kind.Add)
        self.watch.notice(self._sum_states(op, place))  # it is a number from here on
        self._written(op, op.buffer, op.value, place, np.zeros(place.shape, np.int32))
        return result

    def _place(self, op: d.ElementWrite) -> NDArray:
        return self.buffer(op.buffer)[(*(slice(index, index + 1) for index in self.integers(op.indices)),)]

    # operators ----------------------------------------------------------------------------------------------------------

    def apply(self, op: d.ApplyOp) -> Sequence[Value]:
        with poisoned() as poison:
            results = super().apply(op)
        row = ops.table()[op.op]
        operands = {name: value for name, value in apply_args(op).items() if isinstance(value, SSAValue)}
        self._reads(op, row, operands)
        results = [self._of_memory(result, operands.values()) if isinstance(result, Buffer) else result for result in results]
        if row.family == "rank" or row.facts.effect is not Effect.Nothing:
            return results
        if row.facts.of_bytes:  # a tensor stays where it is, in the shadow too; the bytes of a tile are another value's
            operands = {name: value for name, value in operands.items() if not isinstance(self.values[value], Buffer)}
        states = {name: self._operand_states(op, value) for name, value in operands.items()}
        narrowed = {name for name, value in operands.items() if isinstance(found := self.values[value], ArrayValue) and found.valid != found.data.shape}
        suspicious = any(found is not None for found in states.values()) or (row.family != "elementwise" and (poison.asked or narrowed))
        if not suspicious or any(isinstance(result, Buffer) for result in results):
            return results
        types = tuple(d.type_of(result) for result in op.results)
        return self._judged(Application(op, lambda given: evaluate(row, given, types), self.arguments(op), self._unknown(operands, states), states, results))

    def _of_memory(self, result: Buffer, operands: Iterable[SSAValue]) -> Buffer:
        """A view that an operator made."""
        for value in operands:
            source = self.values[value]
            if isinstance(source, Buffer) and np.may_share_memory(source.array, result.array):
                return source.part(result.array)
        return result

    def _reads(self, op: d.ApplyOp | d.EffectOp, row: OpSpec, operands: dict[str, SSAValue]) -> None:
        """Operators on tensors read them, but for those that choose their cells by index: which ones is not known here."""
        if row.facts.of_bytes or row.facts.fails is Fails.Indices:
            return
        for name, value in operands.items():
            if isinstance(found := self.values[value], Buffer) and name != row.facts.writes:
                self._touch(op, value, found.array, Kind.Read)

    def _operand_states(self, op: d.TileOp, value: SSAValue) -> NDArray | None:
        found = self.values[value]
        if isinstance(found, Buffer):
            return self._read_states(op, value, found.array)
        return found.states if isinstance(found, PartlyDefined) else None

    def _unknown(self, operands: dict[str, SSAValue], states: dict[str, NDArray | None]) -> Unknown:
        """Where operands hold nothing: cells nobody wrote, and those outside valid regions."""
        out: dict[str, NDArray] = {}
        for name, value in operands.items():
            found, own = self.values[value], states[name]
            if not isinstance(found, Buffer | ArrayValue):
                continue
            data = found.array if isinstance(found, Buffer) else found.data
            nothing = np.zeros(data.shape, bool) if own is None else own > 0
            if isinstance(found, ArrayValue):
                inside = np.zeros(data.shape, bool)
                inside[tuple(slice(0, size) for size in found.valid)] = True
                nothing |= ~inside
            if nothing.any():
                out[name] = nothing
        return out

    def _judged(self, done: Application) -> Sequence[Value]:
        """The results of an operator, with the states of what depends on cells that hold nothing."""
        masks = done.dependent(done.unknown)
        if not any(mask.any() for mask in masks):
            return done.results
        state = self._blamed(done)
        out: list[Value] = []
        for result, mask in zip(done.results, masks, strict=True):
            if not mask.any() or not isinstance(result, ArrayValue):
                self.watch.notice(np.where(mask, state, DEFINED))
                out.append(result)
                continue
            own = np.zeros(result.data.shape, np.int32)
            own[tuple(slice(0, size) for size in result.valid)][mask] = state
            out.append(PartlyDefined(result.data, result.valid, own))
        return out

    def _blamed(self, done: Application) -> int:
        """The state of results that depend on cells that hold nothing: an origin that is known already, or this place."""
        known = max((int(found.max()) for found in done.states.values() if found is not None), default=DEFINED)
        if known > NOTHING:
            return known
        operands = apply_args(done.op)
        for name, nothing in done.unknown.items():
            if not any(mask.any() for mask in done.dependent({name: nothing})):
                continue
            value, own = operands[name], done.states[name]
            assert isinstance(value, SSAValue)
            if own is not None:
                return NOTHING if ops.table()[done.op.op].family == "movement" else self.watch.unset(done.op, value, own)
            return self.watch.outside(done.op, value, self.values[value].valid)
        return NOTHING

    # statements ---------------------------------------------------------------------------------------------------------

    def effect(self, op: d.EffectOp) -> Sequence[Value]:
        written = written_by(op)
        if written is None or ops.facts(op.op).effect is Effect.Ranks:
            super().effect(op)
            self._shown_cells(op)
            if ops.facts(op.op).effect is Effect.Ranks:
                for value in op.args:
                    if isinstance(found := self.values[value], Buffer) and found.shadow is not None:
                        found.shadow.state(found.array)[...] = DEFINED
            if sync_class(op) is not None:
                self.turn.barriers += 1
            return []
        array = self.buffer(written)
        row, arguments, before = ops.table()[op.op], self.arguments(op), array.copy()
        arguments = {**arguments, **{name: ArrayValue(before, before.shape) for name in [row.facts.writes] if name is not None}}
        super().effect(op)
        self._updated(op, row, written, arguments, array)
        return []

    def _shown_cells(self, op: d.EffectOp) -> None:
        """`pl.print` shows cells to the caller."""
        for value in op.args if op.op == "print" else ():
            if isinstance(found := self.values[value], Buffer):
                self._touch(op, value, found.array, Kind.Read)
            self.watch.leaves(op, value, *remembered(found))

    def _updated(self, op: d.EffectOp, row: OpSpec, written: SSAValue, arguments: Arguments, array: NDArray) -> None:
        """What an operator wrote into a tensor: the cells whose contents no longer follow those from before."""
        type = (full_tile(array.shape, value_dtype(array), TENSOR_SPACE),)
        operands = {name: value for name, value in apply_args(op).items() if isinstance(value, SSAValue)}
        self._reads(op, row, operands)
        target = str(row.facts.writes)
        result = ArrayValue(array, array.shape)

        def compute(given: Arguments) -> Sequence[Any]:
            return evaluate(row, given, type)

        follows = dependent(compute, arguments, {target: np.ones(array.shape, bool)}, [result])[0]
        changed = ~follows | (array != arguments[target].data)
        self._touch(op, written, array, Kind.Write, changed)
        states = {name: self._operand_states(op, value) for name, value in operands.items() if name != target}
        unknown = self._unknown({name: operands[name] for name in states}, states)
        wrong = dependent(compute, arguments, unknown, [result])[0] & changed if unknown else np.zeros(array.shape, bool)
        shadow = self.handle(written).shadow
        if shadow is None:
            return
        now = shadow.state(array).max(axis=-1)
        now[changed] = DEFINED
        if wrong.any():
            name = next(iter(unknown))
            found = states[name]
            now[wrong] = self.watch.outside(op, operands[name], self.values[operands[name]].valid) if found is None else max(int(found.max()), NOTHING + 1)
            if shadow.parameter is not None:
                self.watch.notice(now)
                now[wrong] = DEFINED
        shadow.state(array)[...] = now[..., None]


_RULES: dict[type[Operation], Callable[[SanitizedFrame, Any], Sequence[Value]]] = {
    d.ApplyOp: SanitizedFrame.apply,
    d.CreateOp: SanitizedFrame.create,
    d.LoadOp: SanitizedFrame.load,
    d.StoreOp: SanitizedFrame.store,
    d.ReadOp: SanitizedFrame.read,
    d.WriteOp: SanitizedFrame.write,
    d.AtomicOp: SanitizedFrame.atomic,
    d.EffectOp: SanitizedFrame.effect,
}
