"""The reference backend: interprets tile IR with NumPy, one op at a time. Slow, obvious, the definition of every program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from tilejit import ops
from tilejit.backends import checks
from tilejit.backends.base import CompileOptions
from tilejit.backends.crossing import check_crossings
from tilejit.backends.reference import ranks
from tilejit.backends.reference.memory import Buffer, Memory, NDArray, Value, scalar
from tilejit.backends.reference.tasks import BlockPlace, Surroundings, side_by_side
from tilejit.errors import InternalError, ResourceError, Span, TilejitError
from tilejit.ops.elementwise import value_dtype
from tilejit.ops.evaluate import ArrayValue, evaluate, whole
from tilejit.ops.facts import Effect
from tilejit.ops.sizes import HELP, bytes_of
from tilejit.runtime import machine
from tilejit.runtime.call.failures import NOTE, raise_failure
from tilejit.runtime.call.printing import in_order, say
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import written_by
from tilejit.tile_ir.build import apply_args
from tilejit.tile_ir.cross_core import CrossCore, Member, Run, Start
from tilejit.tile_ir.program import Program
from tilejit.tile_ir.transfers import sync_class, transfer_of
from tilejit.types.values import TENSOR_SPACE, BufferType, ScalarType, TileType, ValueType, full_tile


class ReferenceExecutable:
    """A program that is interpreted."""

    def __init__(self, program: Program, options: CompileOptions | None = None) -> None:
        self.program = program
        self.options = options or CompileOptions()
        self._functions = program.functions
        self.cross = CrossCore(program)
        check_crossings(self.cross, program)

    def run(self, entry: str, arguments: Sequence[NDArray | int | float | bool | np.generic]) -> tuple[object, ...]:
        """Run `entry`; arrays are written in place. Returns the arrays and scalars that the function returns."""
        params = self._functions[entry].body.block.args
        returned = self.start(entry, [argument(d.type_of(param), given) for param, given in zip(params, arguments, strict=True)], BlockPlace())
        return tuple(value.array if isinstance(value, Buffer) else value.box if isinstance(value, ArrayValue) else value for value in returned)

    def start(self, entry: str, values: Sequence[Value], place: BlockPlace) -> Sequence[Value]:
        """Run `entry` on values; those that it returns."""
        function, alone = self._functions[entry], self.cross.alone(entry)
        if alone is None:
            return self.invoke(function, values, place)
        return side_by_side(place, alone, [None], lambda _, own: self.invoke(function, values, own), self.cross)[0]

    def invoke(self, function: d.FuncOp, arguments: Sequence[Value], place: BlockPlace) -> list[Value]:
        """The values a function returns."""
        return Frame(self, place, function.symbol).block(function.body.block, arguments)

    def call(self, name: str, arguments: Sequence[Value], place: BlockPlace) -> list[Value]:
        """The results of a call: what the callee returns besides its own parameters."""
        function = self._functions[name]
        return self.results_of(function, self.invoke(function, arguments, place))

    def function(self, name: str) -> d.FuncOp:
        """A function of the program."""
        return self._functions[name]

    def results_of(self, function: d.FuncOp, returned: Sequence[Value]) -> list[Value]:
        """Of what a function returns: what is no parameter of its own."""
        terminator = d.end_of(function.body.block, d.ReturnOp)
        return [value for value, operand in zip(returned, terminator.values, strict=True) if not is_parameter(operand)]


def is_parameter(value: SSAValue) -> bool:
    """Whether a value is a parameter of its function."""
    return isinstance(value, BlockArgument) and isinstance(value.owner.parent_op(), d.FuncOp)


def argument(type: ValueType, argument: Any) -> Value:
    if isinstance(type, ScalarType):
        return scalar(argument, type.dtype)
    array = argument if isinstance(argument, np.ndarray) else np.asarray(argument)
    return Buffer(array)


@cache
def _is_too_large(type: Attribute) -> bool:
    """Whether values of a type take more memory than the machine has; tensors are only promised theirs."""
    data = type.data if isinstance(type, d.IRType) else None
    if not isinstance(data, TileType):
        return False
    return bytes_of(tuple(extent for extent in data.shape if isinstance(extent, int)), data.dtype.get_byte()) > machine.memory_bytes()


class Frame(Memory):
    """One running function: the values of its SSA names."""

    def __init__(self, machine: ReferenceExecutable, place: BlockPlace, function: str) -> None:
        self.machine = machine
        self.function = function
        self.place = place
        self.values = {}

    def block(self, block: Block, arguments: Sequence[Value]) -> list[Value]:
        """Run a block; the operands of its terminator."""
        self._bind(block.args, arguments)
        for op in block.ops:
            if isinstance(op, d.ReturnOp | d.YieldOp | d.ConditionOp):
                return [self.values[operand] for operand in op.operands]
            results = self.step(op)
            self._bind(op.results, results)
        raise InternalError("a block of the program has no terminator")

    def _bind(self, names: Iterable[SSAValue], values: Sequence[Value]) -> None:
        for name, value in zip(names, values, strict=True):
            self.values[name] = value

    def step(self, op: Operation) -> Sequence[Value]:
        """Run one op; its results."""
        rule = _RULES.get(type(op))
        if rule is None:
            raise InternalError(f"the reference backend does not know {op.name}")
        try:
            if any(_is_too_large(result.type) for result in op.results):
                raise MemoryError  # a system that promises more than it has would end the process, where the value is written
            return rule(self, op)
        except MemoryError:
            raise ResourceError("the machine has not enough memory for this", span=_span(op), help=HELP, note=NOTE) from None

    # values -------------------------------------------------------------------------------------------------------------

    def const(self, op: d.ConstOp) -> Sequence[Value]:
        return [scalar(op.static("value"), d.type_of(op.result).dtype)]

    def apply(self, op: d.ApplyOp) -> Sequence[Value]:
        row = ops.table()[op.op]
        if row.family == "rank":
            return [ranks.query(op, self.values[op.args[0]])]
        if row.facts.effect is Effect.Place:
            return [np.int64(_place(row.name, self.place))]
        if (transfer := transfer_of(op, self.function)) is not None:
            return [self._around.pop(transfer)]
        types = tuple(d.type_of(result) for result in op.results)
        arguments = self.arguments(op)
        try:
            results = evaluate(row, arguments, types)
        except TilejitError as error:
            error.note = error.note or NOTE
            raise error.located(op.span) if op.span else error from None
        sources = [value.array for operand in op.operands if isinstance(value := self.values[operand], Buffer)]
        return [_owned(result, type, sources) for result, type in zip(results, types, strict=True)]

    def arguments(self, op: d.ApplyOp | d.EffectOp) -> dict[str, object]:
        """What an op of the table is applied to, by parameter."""
        return {name: self._apply_argument(argument) for name, argument in apply_args(op).items()}

    def _apply_argument(self, argument: object) -> object:
        if isinstance(argument, SSAValue):
            value = self.values[argument]
            return whole(value.array) if isinstance(value, Buffer) else value
        if isinstance(argument, list):
            return tuple(self.values[item] for item in argument)
        return argument

    def dim(self, op: d.DimOp) -> Sequence[Value]:
        return [np.int64(self.array(op.source).data.shape[op.axis])]

    def valid(self, op: d.ValidOp) -> Sequence[Value]:
        return [np.int64(self.array(op.source).valid[op.axis])]

    # other ranks --------------------------------------------------------------------------------------------------------

    def comm(self, op: d.CommOp) -> Sequence[Value]:
        return [ranks.comm_of(self.buffer(op.window))]

    def peer(self, op: d.PeerOp) -> Sequence[Value]:
        return [Buffer(ranks.peer_copy(self, op))]

    # control flow ---------------------------------------------------------------------------------------------------------

    def for_(self, op: d.ForOp) -> Sequence[Value]:
        lower, upper, step = self.integer(op.lower), self.integer(op.upper), self.integer(op.step)
        if step == 0:
            raise_failure(checks.step_failure(op), ())
        iv = d.type_of(op.body.block.args[0])
        carried = [self.values[init] for init in op.inits]
        for index in self.turns(op, range(lower, upper, step)):
            carried = self.block(op.body.block, [scalar(index, iv.dtype), *carried])
        return carried

    def turns(self, op: d.ForOp, indices: range) -> Iterable[int]:
        """The turns of a loop, one after the other."""
        return indices

    def while_(self, op: d.WhileOp) -> Sequence[Value]:
        carried = [self.values[init] for init in op.inits]
        while True:
            go_on, *carried = self.block(op.before.block, carried)
            if not go_on:
                return carried
            carried = self.block(op.body.block, carried)

    def if_(self, op: d.IfOp) -> Sequence[Value]:
        return self.block(op.then.block if self.values[op.condition] else op.orelse.block, [])

    def region(self, op: d.RegionOp) -> Sequence[Value]:
        if (run := self.machine.cross.run_of(op)) is not None:
            return self._part_of_run(op, run)
        if op.blocks is None:
            return self.block(op.body.block, [])
        outer = self.place
        results: list[Value] = []
        for place in self.blocks(self.integer(op.blocks)):
            self.place = place
            results = self.block(op.body.block, [np.int64(place.index)][: len(op.body.block.args)])
        self.place = outer
        return results

    def blocks(self, count: int) -> Iterator[BlockPlace]:
        """The places of `count` blocks that start here."""
        outer = self.place
        for index in range(count):
            yield replace(outer, index=index, count=count)

    def group(self, op: d.GroupOp) -> Sequence[Value]:
        return self.block(op.body.block, [])

    def _part_of_run(self, op: Start, run: Run) -> Sequence[Value]:
        """Kernels that wait for each other start where the last of them stands."""
        if op is not run.last:
            return [None] * len(op.results)
        counts = [None if member.blocks is None else self.integer(member.blocks) for member in run.members]
        results = side_by_side(self.place, run, counts, self.member, self.machine.cross)
        for member, values in zip(run.members, results, strict=True):
            self._bind(member.op.results, values)
        return results[-1]

    def member(self, member: Member, place: BlockPlace) -> Sequence[Value]:
        """One block and lane of a member of a run, in a frame of its own."""
        op = member.op
        if isinstance(op, d.RegionOp):
            frame = type(self)(self.machine, place, self.function)
            frame.values = dict(self.values)
            return frame.block(op.body.block, [np.int64(place.index)][: len(op.body.block.args)])
        assert isinstance(op, d.CallOp | d.LaunchOp)
        return self.machine.call(op.callee.data, [self.values[arg] for arg in op.args], place)

    def call(self, op: d.CallOp) -> Sequence[Value]:
        if (run := self.machine.cross.run_of(op)) is not None:
            return self._part_of_run(op, run)
        return self.machine.call(op.callee.data, [self.values[arg] for arg in op.args], self.place)

    def launch(self, op: d.LaunchOp) -> Sequence[Value]:
        if (run := self.machine.cross.run_of(op)) is not None:
            return self._part_of_run(op, run)
        for place in [self.place] if op.blocks is None else self.blocks(self.integer(op.blocks)):
            self.machine.call(op.callee.data, [self.values[arg] for arg in op.args], place)
        return []

    # checks and effects -----------------------------------------------------------------------------------------------------

    def check(self, op: d.CheckOp) -> Sequence[Value]:
        left, right = self.integer(op.left), self.integer(op.right)
        if left != right:
            raise_failure(checks.extent_failure(op), (left, right))
        return []

    def effect(self, op: d.EffectOp) -> Sequence[Value]:
        name = op.static("op")
        if name == "print":
            parts = op.statics.get("parts")
            shown = [self._shown(arg) for arg in op.args]
            say(*(in_order(parts, shown) if isinstance(parts, tuple) else shown))
        elif name == "breakpoint":
            _stop({checks.name_of(value).strip("`"): self._shown(value) for value in self.values})
        elif name == "device_assert":
            if not self.values[op.args[0]]:
                raise_failure(checks.assertion_failure(op), ())
        elif ops.facts(op.op).effect is Effect.Ranks or ops.table()[op.op].family == "rank":
            ranks.perform(self, op)
        elif (transfer := transfer_of(op, self.function)) is not None:
            self._around.push(transfer, self.array(op.args[0]))
        elif (name := sync_class(op)) is not None and self.place.around is not None:
            used = apply_args(op).get("used_cores")
            self.place.around.sync(op, name, self.integer(used) if isinstance(used, SSAValue) else None)
        elif (written := written_by(op)) is not None:
            self.update(op, self.buffer(written))
        return []

    @property
    def _around(self) -> Surroundings:
        assert self.place.around is not None
        return self.place.around

    def update(self, op: d.EffectOp, array: NDArray) -> None:
        """A statement of the table: its row says what the tensor becomes."""
        arguments = self.arguments(op)
        try:
            (result,) = evaluate(ops.table()[op.op], arguments, (full_tile(array.shape, value_dtype(array), TENSOR_SPACE),))
        except TilejitError as error:
            error.note = error.note or NOTE
            raise error.located(op.span) if op.span else error from None
        array[...] = result.data

    def _shown(self, value: SSAValue) -> object:
        found = self.values[value]
        return found.array if isinstance(found, Buffer) else found.box if isinstance(found, ArrayValue) else found


def _span(op: Operation) -> Span | None:
    return op.span if isinstance(op, d.TileOp) else None


def _owned(result: Any, type: ValueType, sources: Sequence[NDArray]) -> Value:
    """A result that no later store can change: what shares memory with a buffer is copied."""
    if isinstance(type, ScalarType):
        return scalar(result, type.dtype)
    if isinstance(type, BufferType):
        return Buffer(result.data)
    if isinstance(result, ArrayValue) and any(np.may_share_memory(result.data, source) for source in sources):
        return ArrayValue(result.data.copy(), result.valid)
    return result


def _stop(tiles: dict[str, object]) -> None:
    """Stops in the debugger; `tiles` has every value of the kernel by name."""
    breakpoint()  # noqa: T100 - this is what pl.breakpoint() asks for
    _ = tiles


def _place(name: str, place: BlockPlace) -> int:
    lane = 0 if place.around is None else place.around.lane
    return place.index if name == "get_block_idx" else place.count if name == "get_block_num" else lane


_RULES: dict[type[Operation], Callable[[Frame, Any], Sequence[Value]]] = {
    d.ConstOp: Frame.const,
    d.ApplyOp: Frame.apply,
    d.CreateOp: Frame.create,
    d.WindowOp: Frame.window,
    d.ViewOp: Frame.view,
    d.StridedOp: Frame.strided,
    d.CommOp: Frame.comm,
    d.PeerOp: Frame.peer,
    d.LoadOp: Frame.load,
    d.StoreOp: Frame.store,
    d.ReadOp: Frame.read,
    d.WriteOp: Frame.write,
    d.AtomicOp: Frame.atomic,
    d.DimOp: Frame.dim,
    d.ValidOp: Frame.valid,
    d.ForOp: Frame.for_,
    d.WhileOp: Frame.while_,
    d.IfOp: Frame.if_,
    d.RegionOp: Frame.region,
    d.GroupOp: Frame.group,
    d.CallOp: Frame.call,
    d.LaunchOp: Frame.launch,
    d.CheckOp: Frame.check,
    d.EffectOp: Frame.effect,
}
