"""Functions and the calls between them. Every function takes its arguments in the block of 64-bit slots that entries take.

    internal i64 @name(ptr args, ptr context, ptr arena, i64 block, i64 blocks)

A kernel can so be handed to another thread with its arguments and a block number. Returned tensors that are no parameters come
back through slots after the arguments, together with the new top of the arena they lie in. Behind the slots of a tile stand its valid extents.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import BlockArgument, SSAValue

from tilejit.backends.cpu.clocked import clocked
from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.lanes.registers import from_memory, to_memory
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.backends.cpu.memory.storage import Array, Storage, row_major
from tilejit.backends.cpu.teams import fibers, team
from tilejit.runtime.call.abi import TensorSlots
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.names import spelled
from tilejit.types.values import ScalarType, ShapedType, TileType, ValueType


def internal_name(function: str) -> str:
    return f"k_{spelled(function)}"


def bind_parameters(f: FunctionWriter, function: d.FuncOp, args: Value) -> int:
    """Give every parameter its storage; returns the first slot after them."""
    slot = 0
    strided, partly = (found.get(function.symbol, set()) for found in (f.unit.strided, f.unit.partly))
    for position, param in enumerate(function.body.block.args):
        storage, slot = _parameter(f, param, args, slot, position in strided, position in partly)
        f.values[param] = storage
    return slot


def _parameter(f: FunctionWriter, param: SSAValue, args: Value, slot: int, strided: bool, partly: bool) -> tuple[Storage, int]:
    e = f.e
    type = d.type_of(param)
    if isinstance(type, ScalarType):
        return from_memory(e, type.dtype, e.load(type.dtype.llvm, e.offset(args, slot, "i64"), 8)), slot + 1
    assert isinstance(type, ShapedType)
    slots = TensorSlots(slot, type.rank)
    shape: list[Index] = []
    for axis, dim in enumerate(type.shape):
        extent = f.extent(dim, lambda axis=axis: e.load("i64", e.offset(args, slots.extent(axis), "i64"), 8))
        if isinstance(dim, str) and dim != "?":
            f.symbols.setdefault(dim, extent)
        shape.append(extent)
    strides = [e.load("i64", e.offset(args, slots.stride(axis), "i64"), 8) for axis in range(type.rank)] if strided else row_major(e, shape)
    pointer = e.load("ptr", e.offset(args, slots.address, "i64"), 8)
    return Array(pointer, type.dtype, tuple(shape), tuple(strides), _valid(f, type, shape, args, slots, partly), f.tokens(param)), slot + _width(type)


def _valid(f: FunctionWriter, type: ShapedType, shape: Sequence[Index], args: Value, slots: TensorSlots, partly: bool) -> tuple[Index, ...]:
    """The valid extents of a tile; `partly`: they need not be those of its type."""
    if not isinstance(type, TileType):
        return tuple(shape)
    known = [None if partly or not isinstance(dim, int) else dim for dim in type.valid]
    return tuple(f.e.load("i64", f.e.offset(args, slots.end + axis, "i64"), 8) if dim is None else dim for axis, dim in enumerate(known))


def returned(function: d.FuncOp) -> list[SSAValue]:
    """What a function returns besides its own parameters."""
    last = d.end_of(function.body.block, d.ReturnOp)
    return [value for value in last.values if not (isinstance(value, BlockArgument) and value.owner is function.body.block)]


def write_return(f: FunctionWriter, function: d.FuncOp, args: Value, slot: int) -> None:
    """Hand results back and end the function."""
    results = returned(function)
    for value in results:
        slot = _put(f, f.get(value), value, args, slot)
    if results:
        f.e.store(f.top, f.e.offset(args, slot, "i64"), 8)
    f.e.void("ret i64 0")


def _put(f: FunctionWriter, storage: Storage, value: SSAValue, args: Value, slot: int) -> int:
    """Write one value into an argument block; returns the next slot."""
    e = f.e
    type = d.type_of(value)
    if isinstance(storage, Value):
        assert isinstance(type, ScalarType)
        e.store(to_memory(e, type.dtype, storage), e.offset(args, slot, "i64"), 8)
        return slot + 1
    e.store(storage.pointer, e.offset(args, slot, "i64"), 8)
    for i, item in enumerate((*storage.shape, *storage.strides, *(storage.valid if isinstance(type, TileType) else ()))):
        e.store(e.i64(item), e.offset(args, slot + 1 + i, "i64"), 8)
    return slot + _width(type)


def _slots(values: Sequence[SSAValue]) -> int:
    return sum(_width(d.type_of(value)) for value in values)


def _width(type: ValueType) -> int:
    if not isinstance(type, ShapedType):
        return 1
    return TensorSlots(0, type.rank).end + (type.rank if isinstance(type, TileType) else 0)


def write_call(f: FunctionWriter, op: d.CallOp) -> None:
    """A call of another function, once; a call that is part of a run waits for the last of it."""
    if _part_of_run(f, op):
        return
    e = f.e
    callee = f.unit.program.functions[op.callee.data]
    block = _argument_block(f, op.callee.data, list(op.args), returned(callee))
    with clocked(f, op):
        _invoke(f, op.callee.data, block, f.block_index, f.block_count)
    results = returned(callee)
    if not results:
        return
    slot = _slots(list(op.args))
    partly = any(_is_partly(f, arg, param) for arg, param in zip(op.args, callee.body.block.args, strict=True))
    for result, inner in zip(op.results, results, strict=True):
        storage, slot = _result(f, result, inner, block, slot, partly)
        f.values[result] = storage
    f.top = e.load("ptr", e.offset(block, slot, "i64"), 8)


def _result(f: FunctionWriter, result: SSAValue, inner: SSAValue, block: Value, slot: int, partly: bool) -> tuple[Storage, int]:
    if isinstance(d.type_of(inner), ScalarType):
        return _parameter(f, result, block, slot, strided=False, partly=False)
    e = f.e
    type = d.shaped_type(result)
    slots = TensorSlots(slot, type.rank)
    shape = tuple(dim if isinstance(dim, int) else e.load("i64", e.offset(block, slots.extent(axis), "i64"), 8) for axis, dim in enumerate(type.shape))
    pointer = e.load("ptr", e.offset(block, slots.address, "i64"), 8)
    whole = isinstance(inner.owner, d.CreateOp)
    strides = row_major(e, shape) if whole else tuple(e.load("i64", e.offset(block, slots.stride(axis), "i64"), 8) for axis in range(type.rank))
    return Array(pointer, type.dtype, shape, strides, _valid(f, type, shape, block, slots, partly), f.tokens(result)), slot + _width(type)


def _is_partly(f: FunctionWriter, arg: SSAValue, param: SSAValue) -> bool:
    """Whether an argument has other valid extents than the type of its parameter knows."""
    type, storage = d.type_of(param), f.get(arg)
    if not isinstance(type, TileType) or not isinstance(storage, Array):
        return False
    return any(isinstance(dim, int) and dim != own for dim, own in zip(type.valid, storage.valid, strict=True))


def _argument_block(f: FunctionWriter, callee: str, args: Sequence[SSAValue], results: Sequence[SSAValue]) -> Value:
    """Arguments in slots, with room for results."""
    count = _slots(args) + _slots(results) + 1
    block = f.e.alloca(f"[{count} x i64]", 16)
    slot = 0
    for position, (arg, param) in enumerate(zip(args, f.unit.program.functions[callee].body.block.args, strict=True)):
        storage = f.get(arg)
        if isinstance(storage, Array) and not storage.dense:
            f.unit.strided.setdefault(callee, set()).add(position)
        if _is_partly(f, arg, param):
            f.unit.partly.setdefault(callee, set()).add(position)
        slot = _put(f, storage, arg, block, slot)
    return block


def _invoke(f: FunctionWriter, callee: str, block: Value, index: Value, count: Value) -> None:
    e = f.e
    team.leave_on_failure(e, e.inst("i64", f"call i64 @{internal_name(callee)}({block}, {f.context}, {f.top}, {index}, {count})"))


def write_launch(f: FunctionWriter, op: d.LaunchOp) -> None:
    """A kernel on all its blocks: shared out, or one after the other. Launches that run side by side wait for the last of them."""
    if _part_of_run(f, op):
        return
    if op.static("with_next"):
        f.waiting.append(op)
        return
    if f.waiting:
        together, f.waiting = [*f.waiting, op], []
        _write_together(f, together)
        return
    with clocked(f, op):
        _write_blocks(f, op)


def _write_blocks(f: FunctionWriter, op: d.LaunchOp) -> None:
    callee = op.callee.data
    block = _argument_block(f, callee, list(op.args), [])
    if op.blocks is None:
        _invoke(f, callee, block, f.block_index, f.block_count)
        return
    count, estimate = f.index(op.blocks), team.estimate_of(op)
    if "share" in op.attributes and team.is_worth_it(count, estimate):
        slot = _slots(list(op.args))
        f.e.store(f.e.i64(count), f.e.offset(block, slot, "i64"), 8)
        team.run_task(f, team.blocks_task(f, internal_name(callee), slot), block, count, estimate)
        return
    with f.e.loop(0, count, name="blocks") as loop:
        f.e.look()
        _invoke(f, callee, block, loop.iv, f.e.i64(count))


def _part_of_run(f: FunctionWriter, op: d.CallOp | d.LaunchOp) -> bool:
    """Kernels that wait for each other start where the last of them stands."""
    run = f.unit.cross.run_of(op)
    if run is not None and run.last is op:
        tasks: list[fibers.Task] = []
        for member in run.members:
            start = member.op
            assert isinstance(start, d.CallOp | d.LaunchOp)
            if start.results:
                fibers.refuse_results(start.callee.data, start.span)
            block = _argument_block(f, start.callee.data, list(start.args), [])
            count = f.index(member.blocks) if member.blocks is not None else None
            tasks.append(fibers.Task(internal_name(start.callee.data), block, member, count))
        with clocked(f, op):
            fibers.write_run(f, run, tasks)
    return run is not None


def _write_together(f: FunctionWriter, launches: Sequence[d.LaunchOp]) -> None:
    """Launches that do not touch what another one writes: one trip each."""

    def body(inner: FunctionWriter, trip: Value) -> None:
        e = inner.e
        stem = e.fresh("launch")
        labels = [f"{stem}.{i}" for i in range(len(launches))]
        cases = " ".join(f"i64 {i}, label %{label}" for i, label in enumerate(labels[:-1]))
        e.void(f"switch {trip}, label %{labels[-1]} [ {cases} ]")
        for label, launch in zip(labels, launches, strict=True):
            e.place(label)
            callee = launch.callee.data
            with clocked(inner, launch):
                _invoke(inner, callee, _argument_block(inner, callee, list(launch.args), []), inner.block_index, inner.block_count)
            e.br(f"{stem}.done")
        e.place(f"{stem}.done")

    task, args = team.write_task(f, launches, body)
    team.run_task(f, task, args, len(launches), team.estimate_of(launches[-1]))
