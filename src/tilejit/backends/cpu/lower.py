"""Tile IR to LLVM text: one internal function per function of the program, and an entry for each that can be called."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation, SSAValue

from tilejit import ops
from tilejit.backends import checks
from tilejit.backends.base import CompileOptions
from tilejit.backends.cpu import calls, control, ranks
from tilejit.backends.cpu.clocked import counted
from tilejit.backends.cpu.function import FunctionWriter, Unit, constant
from tilejit.backends.cpu.llvm.text import Emitter, Module, Value
from tilejit.backends.cpu.llvm.vector import binary
from tilejit.backends.cpu.memory import ops as memory
from tilejit.backends.cpu.memory.printing import write_print
from tilejit.backends.cpu.memory.views import aim_at_concat, aim_at_store
from tilejit.backends.cpu.nests import in_order
from tilejit.backends.cpu.nests.group import write_group
from tilejit.backends.cpu.nests.recipes import lane_code
from tilejit.backends.cpu.products.looked_up import looked_up
from tilejit.backends.cpu.rules import Nest, Nothing, Own, Place, hole, rule_of
from tilejit.backends.cpu.schedule import Book
from tilejit.backends.cpu.teams import fibers
from tilejit.backends.crossing import check_crossings
from tilejit.dtypes import INDEX
from tilejit.errors import InternalError, UnsupportedFeatureError
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
        unit.strided[entry] = {i for i, name in enumerate(function.names) if (entry, name) in options.strided}
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
    with f.asking_at_once():
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
        _unless_looked_up(f, op, lambda: _write_alone(f, op))
    elif isinstance(rule, Own) and rule.value is not None:
        rule.value(f, op)
    else:
        raise _unsupported(op)


def _unsupported(op: d.ApplyOp | d.EffectOp) -> UnsupportedFeatureError:
    reason = hole(ops.table()[op.op]) or "it has no such form"
    return UnsupportedFeatureError(f"{op.op} does not run on the CPU: {reason}", span=op.span, help="run it with platform='reference'")


def _group(f: FunctionWriter, op: d.GroupOp) -> None:
    _unless_looked_up(f, op, lambda: _write_group(f, op))


def _unless_looked_up(f: FunctionWriter, op: d.ApplyOp | d.GroupOp, make: Callable[[], None]) -> None:
    """Make the results of ops, or leave it to the product that looks them up."""
    if looked_up(f, op) is None:
        make()
    else:
        f.makers[op.results[0]] = make


def _write_alone(f: FunctionWriter, op: d.ApplyOp) -> None:
    aim_at_concat(f, op.results[0])
    aim_at_store(f, op.results[0])
    write_group(f, [op], [op.results[0]])


def _write_group(f: FunctionWriter, op: d.GroupOp) -> None:
    members = [inner for inner in op.body.block.ops if isinstance(inner, d.ApplyOp | d.StoreOp)]
    last = d.end_of(op.body.block, d.YieldOp)
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
    d.CreateOp: memory.write_create,
    d.WindowOp: memory.write_window,
    d.ViewOp: memory.write_view,
    d.StridedOp: memory.write_strided,
    d.CommOp: ranks.write_comm,
    d.PeerOp: ranks.write_peer,
    d.LoadOp: memory.write_load,
    d.StoreOp: memory.write_store,
    d.ReadOp: memory.write_read,
    d.WriteOp: memory.write_write,
    d.AtomicOp: memory.write_atomic,
    d.DimOp: memory.write_dim,
    d.ValidOp: memory.write_valid,
    d.ForOp: control.write_for,
    d.WhileOp: control.write_while,
    d.IfOp: control.write_if,
    d.CallOp: calls.write_call,
    d.LaunchOp: calls.write_launch,
    d.CheckOp: _check,
    d.EffectOp: _effect,
    d.RegionOp: _region,
}
