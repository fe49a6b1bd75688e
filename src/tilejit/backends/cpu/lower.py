"""Tile IR to LLVM text: one internal function per function of the program, and an entry for each that can be called."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation, SSAValue

from tilejit import ops
from tilejit.backends import checks
from tilejit.backends.base import CompileOptions
from tilejit.backends.cpu import calls, control, ranks
from tilejit.backends.cpu.clocked import counted
from tilejit.backends.cpu.function import FunctionWriter, Unit, constant
from tilejit.backends.cpu.lanes.ops import apply_lane
from tilejit.backends.cpu.lanes.registers import lane_constant, load_lanes, store_lanes
from tilejit.backends.cpu.llvm.text import Emitter, Index, Module, Value
from tilejit.backends.cpu.llvm.vector import binary, icmp, select
from tilejit.backends.cpu.memory import movement
from tilejit.backends.cpu.memory.guards import check_box, check_element, clamp
from tilejit.backends.cpu.memory.printing import write_print
from tilejit.backends.cpu.memory.storage import Array, checked_product, element_count, row_major, sub_box, wanted_count
from tilejit.backends.cpu.memory.views import aim_at_concat, aim_at_store, stays_unchanged
from tilejit.backends.cpu.nests import in_order
from tilejit.backends.cpu.nests.group import write_group
from tilejit.backends.cpu.nests.nest import fill_box
from tilejit.backends.cpu.nests.recipes import lane_code
from tilejit.backends.cpu.rules import Nest, Nothing, Own, Place, hole, rule_of
from tilejit.backends.cpu.schedule import Book
from tilejit.backends.cpu.teams import fibers
from tilejit.backends.cpu.teams.atomic import locked, locks_of
from tilejit.backends.crossing import check_crossings
from tilejit.dtypes import INDEX
from tilejit.errors import InternalError, UnsupportedFeatureError
from tilejit.ops.sizes import MAX_BYTES
from tilejit.runtime.call.abi import ARENA_BASE, FIBER
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args
from tilejit.tile_ir.cross_core import Run
from tilejit.tile_ir.names import spelled
from tilejit.tile_ir.program import Program
from tilejit.types.values import ScalarType


@dataclass(frozen=True, slots=True)
class Lowered:
    """A program as LLVM text."""

    module: Module
    text: str
    entries: dict[str, str]
    """Symbols of the callable functions, by name."""
    failures: tuple[Failure, ...]
    needs_arena: bool
    """Whether any function takes scratch memory."""
    threaded: bool
    """Whether any function may share out work."""
    schedules: Book
    """What was chosen for the nests."""


def entry_symbol(name: str) -> str:
    return f"tj_{spelled(name)}"


def lower(program: Program, options: CompileOptions, grown: Callable[[Module], None] | None = None) -> Lowered:
    """LLVM text of a program whose regions are outlined; `grown` sees the module after each function."""
    unit = Unit(program, options, Module(precise=not options.fast_math, schedules=Book(json.loads(options.schedule or "{}"))))
    check_crossings(unit.cross, program)
    for entry, function in program.entries.items():
        if calls.returned(function):
            raise InternalError(f"{entry} returns a value that is no parameter", span=function.span)
        names = function.static("params", ())
        assert isinstance(names, tuple)
        unit.strided[entry] = {i for i, name in enumerate(names) if (entry, name) in options.strided}
    for name in callers_first(program):
        _write_function(unit, program.functions[name])
        if grown is not None:
            grown(unit.module)
    entries = {name: entry_symbol(name) for name in program.entries}
    for name, symbol in entries.items():
        _write_entry(unit, name, symbol)
    if unit.fibers:
        fibers.define(unit)
    return Lowered(unit.module, unit.module.text(), entries, tuple(unit.failures), unit.needs_arena, unit.threaded, unit.module.schedules)


def callers_first(program: Program) -> list[str]:
    """Functions that entries reach, each before the functions it calls: a callee must know how its arguments look."""
    functions = program.functions
    order: list[str] = []
    entered: set[str] = set()

    def visit(name: str) -> None:
        if name in entered:
            return
        entered.add(name)
        for op in functions[name].walk():
            if isinstance(op, d.CallOp | d.LaunchOp):
                visit(op.callee.data)
        order.append(name)

    for entry in program.entries:
        visit(entry)
    return order[::-1]


def _write_function(unit: Unit, function: d.FuncOp) -> None:
    params = [Value(f"%{name}", "i64" if name.startswith("block") else "ptr") for name in ("args", "context", "arena", "block", "blocks")]
    emitter = Emitter(unit.module, calls.internal_name(function.symbol), "i64", params, linkage="internal")
    f = FunctionWriter(unit, emitter, RULES)
    slot = calls.bind_parameters(f, function, params[0])
    f.block(function.body.block)
    calls.write_return(f, function, params[0], slot)
    emitter.finish()


def _write_entry(unit: Unit, name: str, symbol: str) -> None:
    args, context = Value("%args", "ptr"), Value("%context", "ptr")
    e = Emitter(unit.module, symbol, "i64", [args, context])
    arena = e.load("ptr", e.offset(context, ARENA_BASE, "i64"), 8)
    alone = unit.cross.alone(name)
    if unit.fibers or alone is not None:
        e.store(Value("null", "ptr"), e.offset(context, FIBER, "i64"), 8)
    if alone is not None:
        _write_lone_entry(unit, alone, name, e, arena)
        return
    call = f"call i64 @{calls.internal_name(name)}({args}, {context}, {arena}, i64 0, i64 1)"
    if unit.options.profile:
        with counted(e, context, 0):
            code = e.inst("i64", call)
    else:
        code = e.inst("i64", call)
    e.void(f"ret {code}")
    e.finish()


def _write_lone_entry(unit: Unit, run: Run, name: str, e: Emitter, arena: Value) -> None:
    """An entry that pushes and pops itself."""
    f = FunctionWriter(unit, e, RULES)
    f.top, f.block_index, f.block_count = arena, Value("0", "i64"), Value("1", "i64")
    fibers.write_run(f, run, [fibers.Task(calls.internal_name(name), Value("%args", "ptr"), run.members[0])])
    e.void("ret i64 0")
    e.finish()


# scalars ----------------------------------------------------------------------------------------------------------------


def _const(f: FunctionWriter, op: d.ConstOp) -> None:
    f.values.setdefault(op.result, constant(op))


def _scalar(f: FunctionWriter, op: d.ApplyOp, rule: Nest) -> None:
    type = d.type_of(op.results[0])
    operands = [value for value in apply_args(op).values() if isinstance(value, SSAValue)]
    if rule.on_indices is not None and type == ScalarType(INDEX) and all(d.type_of(value) == type for value in operands):
        f.values[op.results[0]] = f.e.i64(rule.on_indices(f.e, *(f.index(value) for value in operands)))
        return
    lanes = [f.scalar(value) for value in operands]
    f.values[op.results[0]] = lane_code(op, ops.table()[op.op], rule.lane)(f.e, lanes, 1)


# ops of the table -------------------------------------------------------------------------------------------------------


def _apply(f: FunctionWriter, op: d.ApplyOp) -> None:
    rule = rule_of(ops.table()[op.op])
    if isinstance(rule, Place):
        f.values[op.results[0]] = rule.register(f)
    elif isinstance(rule, Nest) and isinstance(d.type_of(op.results[0]), ScalarType):
        _scalar(f, op, rule)
    elif in_order.applies(f, op):
        in_order.write(f, op)
    elif isinstance(rule, Nest):
        aim_at_concat(f, op.results[0])
        aim_at_store(f, op.results[0])
        write_group(f, [op], [op.results[0]])
    elif isinstance(rule, Own) and rule.value is not None:
        rule.value(f, op)
    else:
        raise _unsupported(op)


def _unsupported(op: d.ApplyOp | d.EffectOp) -> UnsupportedFeatureError:
    reason = hole(ops.table()[op.op]) or "it has no such form"
    return UnsupportedFeatureError(f"{op.op} does not run on the CPU: {reason}", span=op.span, help="run it with platform='reference'")


def _group(f: FunctionWriter, op: d.GroupOp) -> None:
    members = [inner for inner in op.body.block.ops if isinstance(inner, d.ApplyOp | d.StoreOp)]
    last = op.body.block.last_op
    assert isinstance(last, d.YieldOp)
    for inner in op.body.block.ops:
        if not isinstance(inner, d.ApplyOp | d.StoreOp | d.YieldOp):
            f.rules[type(inner)](f, inner)
    for result, inner in zip(op.results, last.values, strict=True):
        aim_at_concat(f, result)
        target = f.targets.pop(result, None)
        if target is not None:
            f.targets[inner] = target
    write_group(f, members, list(dict.fromkeys(last.values)))
    for result, inner in zip(op.results, last.values, strict=True):
        f.values[result] = f.values[inner]


# memory -----------------------------------------------------------------------------------------------------------------


def _create(f: FunctionWriter, op: d.CreateOp) -> None:
    type = d.shaped_type(op.result)
    dynamic = iter(op.extents)
    shape = [dim if isinstance(dim, int) else f.index(next(dynamic)) for dim in type.shape]
    for axis, extent in enumerate(shape):
        if not isinstance(extent, int):
            f.fail_if(f.e.icmp("slt", extent, 0), checks.create_failure(op, axis), [extent])
    ring = f.rings.get(op)
    pointer = ring.pick(f) if ring else f.new_array(type.dtype, shape, span=op.span).pointer
    array = Array(pointer, type.dtype, tuple(shape), row_major(f.e, shape), tuple(shape), f.tokens(op.result))
    f.values[op.result] = array
    init = op.static("init")
    if init is not None:
        assert isinstance(init, int | float | bool)
        fill_box(f.e, array, lane_constant(type.dtype, init, 1), array.shape)


def _window(f: FunctionWriter, op: d.WindowOp) -> None:
    buffer = f.array(op.buffer)
    offsets, sizes = f.indices(op.offsets), f.indices(op.extents)
    sizes = check_box(f, op, buffer, offsets, sizes)
    drop = op.static("drop", ())
    assert isinstance(drop, tuple)
    f.values[op.result] = sub_box(f.e, buffer, offsets, sizes, drop=drop)


def _view(f: FunctionWriter, op: d.ViewOp) -> None:
    e = f.e
    buffer = f.array(op.buffer)
    type = d.shaped_type(op.result)
    dynamic = iter(op.extents)
    shape = tuple(dim if isinstance(dim, int) else f.index(next(dynamic)) for dim in type.shape)
    for axis, extent in enumerate(shape):
        if not isinstance(extent, int):
            f.fail_if(e.icmp("slt", extent, 0), checks.create_failure(op, axis), [extent])
    have = element_count(e, buffer.shape)
    if type.dtype.get_byte() != buffer.dtype.get_byte():
        size = e.mul(have, buffer.dtype.get_byte())
        have = size // type.dtype.get_byte() if isinstance(size, int) else e.inst("i64", f"sdiv {size}, {type.dtype.get_byte()}")
    want = wanted_count(e, shape)
    if not (isinstance(have, int) and have == want):
        f.fail_if(e.icmp("ne", have, want), checks.view_failure(op), [have, want])
    strides = movement.reshaped_strides(f, buffer, shape, type.dtype, lambda bad: f.fail_if(bad, checks.view_failure(op), [have, want]))
    f.values[op.result] = Array(buffer.pointer, type.dtype, shape, strides, shape, buffer.tokens)


def _strided(f: FunctionWriter, op: d.StridedOp) -> None:
    e = f.e
    buffer, dtype = f.array(op.buffer), d.shaped_type(op.result).dtype
    start, shape, strides = f.index(op.start), tuple(f.indices(op.extents)), tuple(f.indices(op.strides))
    low, high = start, start
    empty: list[Index] = []
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        if not isinstance(extent, int):
            f.fail_if(e.icmp("slt", extent, 0), checks.create_failure(op, axis), [extent])
        if not isinstance(extent, int) or extent == 0:
            empty.append(extent)
        reach = _reach(f, op, extent, stride)
        low, high = e.add(low, e.min(reach, 0)), e.add(high, e.max(reach, 0))
    size = e.mul(element_count(e, buffer.shape), buffer.dtype.get_byte())
    have = size // dtype.get_byte() if isinstance(size, int) else e.inst("i64", f"sdiv {size}, {dtype.get_byte()}")
    if f.unit.options.check_bounds:
        bad = binary(e, "or", e.icmp("slt", low, 0), e.icmp("sge", high, have))
        for extent in empty:
            bad = binary(e, "and", bad, e.icmp("ne", extent, 0))
        f.fail_if(bad, checks.reach_failure(op), [low, high, have])
    f.values[op.result] = Array(e.offset(buffer.pointer, start, dtype.llvm), dtype, shape, strides, shape, buffer.tokens)


def _reach(f: FunctionWriter, op: d.StridedOp, extent: Index, stride: Index) -> Index:
    """How far a dim leads from its first element; a distance that no buffer has is a failure, so that sums of it fit."""
    steps = f.e.sub(extent, 1)
    if isinstance(steps, int) and isinstance(stride, int):
        return steps * stride
    reach, bad = checked_product(f.e, [steps, stride])
    # As an unsigned number, what lies below the lowest distance is huge.
    bad = binary(f.e, "or", bad, f.e.icmp("ugt", f.e.inst("i64", f"add {reach}, {MAX_BYTES}"), 2 * MAX_BYTES))
    f.fail_if(binary(f.e, "and", bad, f.e.icmp("sgt", extent, 0)), checks.reach_failure(op), [reach, reach, 0])
    return reach


def _load(f: FunctionWriter, op: d.LoadOp) -> None:
    e = f.e
    buffer = f.array(op.buffer)
    type = d.shaped_type(op.result)
    shape = [dim for dim in type.shape if isinstance(dim, int)]
    sizes = [clamp(f, size, extent) for size, extent in zip(f.indices(op.valid), shape, strict=True)]
    offsets = f.indices(op.offsets)
    valid = check_box(f, op, buffer, offsets, sizes)
    view = sub_box(e, buffer, offsets, shape, valid)
    if stays_unchanged(f, op, op.result):
        f.values[op.result] = view
    else:
        movement.copy_into(f, op.result, view, op.span)


def _store(f: FunctionWriter, op: d.StoreOp) -> None:
    write_group(f, [op], [])


def _read(f: FunctionWriter, op: d.ReadOp) -> None:
    array, indices = f.array(op.source), f.indices(op.indices)
    check_element(f, op, array, indices)
    cell = sub_box(f.e, array, indices, [1] * array.rank)
    f.values[op.result] = load_lanes(f.e, array.dtype, cell.pointer, 1)


def _write(f: FunctionWriter, op: d.WriteOp) -> None:
    array, indices = f.array(op.buffer), f.indices(op.indices)
    check_element(f, op, array, indices)
    cell = sub_box(f.e, array, indices, [1] * array.rank)
    store_lanes(f.e, array.dtype, cell.pointer, f.scalar(op.value), 1)


def _atomic(f: FunctionWriter, op: d.AtomicOp) -> None:
    e, array, indices, value = f.e, f.array(op.buffer), f.indices(op.indices), f.scalar(op.value)
    check_element(f, op, array, indices)
    cell = sub_box(e, array, indices, [1] * array.rank)
    combine, locks = ops.table()[str(op.static("atomic"))].attrs["combine"], locks_of(f)
    with nullcontext() if locks is None else locked(e, locks, cell.pointer, array.dtype.get_byte()):
        old = load_lanes(e, array.dtype, cell.pointer, 1)
        if isinstance(combine, str):
            rule = rule_of(ops.table()[combine])
            assert isinstance(rule, Nest)
            value = apply_lane(e, rule.lane, array.dtype, [old, value], 1)
        if op.expected is not None:
            value = select(e, icmp(e, "eq", old, f.scalar(op.expected)), value, old)
        store_lanes(e, array.dtype, cell.pointer, value, 1)
    f.values[op.result] = old


def _dim(f: FunctionWriter, op: d.DimOp) -> None:
    axis = op.static("axis")
    assert isinstance(axis, int)
    f.values[op.result] = f.e.i64(f.array(op.source).shape[axis])


def _valid(f: FunctionWriter, op: d.ValidOp) -> None:
    axis = op.static("axis")
    assert isinstance(axis, int)
    f.values[op.result] = f.e.i64(f.array(op.source).valid[axis])


# checks and effects -----------------------------------------------------------------------------------------------------


def _check(f: FunctionWriter, op: d.CheckOp) -> None:
    left, right = f.index(op.left), f.index(op.right)
    if left != right:
        f.fail_if(f.e.icmp("ne", left, right), checks.extent_failure(op), [left, right])


def _effect(f: FunctionWriter, op: d.EffectOp) -> None:
    name = op.static("op")
    if name == "device_assert":
        holds = f.scalar(op.args[0])
        f.fail_if(binary(f.e, "xor", holds, Value("true", "i1")), checks.assertion_failure(op), [])
    elif op.op in ops.table():
        rule = rule_of(ops.table()[op.op])
        if isinstance(rule, Own) and rule.statement is not None:
            rule.statement(f, op)
        elif not isinstance(rule, Nothing):
            raise _unsupported(op)
    elif name == "print":
        write_print(f, op)


def _region(f: FunctionWriter, op: d.RegionOp) -> None:
    raise InternalError("a region was not outlined before the CPU backend", span=op.span)


RULES: dict[type[Operation], Callable[[FunctionWriter, Any], None]] = {
    d.ConstOp: _const,
    d.ApplyOp: _apply,
    d.GroupOp: _group,
    d.CreateOp: _create,
    d.WindowOp: _window,
    d.ViewOp: _view,
    d.StridedOp: _strided,
    d.CommOp: ranks.write_comm,
    d.PeerOp: ranks.write_peer,
    d.LoadOp: _load,
    d.StoreOp: _store,
    d.ReadOp: _read,
    d.WriteOp: _write,
    d.AtomicOp: _atomic,
    d.DimOp: _dim,
    d.ValidOp: _valid,
    d.ForOp: control.write_for,
    d.WhileOp: control.write_while,
    d.IfOp: control.write_if,
    d.CallOp: calls.write_call,
    d.LaunchOp: calls.write_launch,
    d.CheckOp: _check,
    d.EffectOp: _effect,
    d.RegionOp: _region,
}
