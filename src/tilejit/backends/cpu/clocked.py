"""A clock around every launch, for programs that are profiled: cycles and runs of each region, in a table that the call is given."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from xdsl.ir import Operation

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.look import DECLARATIONS
from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.runtime.call.abi import PROFILE, Profiled
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.planes import CONTROL_KINDS

_COUNTER = "llvm.readcyclecounter"


@contextmanager
def clocked(f: FunctionWriter, op: d.CallOp | d.LaunchOp) -> Generator[None]:
    """The code written inside is a run of what `op` names."""
    if not f.unit.options.profile or not _on_control_plane(op):
        yield
        return
    with counted(f.e, f.context, 1 + list(f.unit.program.functions).index(op.callee.data)):
        yield


@contextmanager
def counted(e: Emitter, context: Value, row: int) -> Generator[None]:
    """What the code written inside takes is added to a row of the table, if the call has one."""
    if not host().is_x86:  # elsewhere programs may not read the counter
        yield
        return
    e.module.declare(_COUNTER, DECLARATIONS[_COUNTER])
    start = e.inst("i64", f"call i64 @{_COUNTER}()")
    yield
    end = e.inst("i64", f"call i64 @{_COUNTER}()")
    stem = e.fresh("counted")
    table = e.load("ptr", e.offset(context, PROFILE, "i64"), 8)
    e.cbr(e.inst("i1", f"icmp ne {table}, null"), f"{stem}.here", f"{stem}.on")
    e.place(f"{stem}.here")
    spent = e.inst("i64", f"sub {end}, {start.text}")
    for column, amount in ((Profiled.CYCLES, spent.text), (Profiled.RUNS, "1")):
        place = e.offset(table, row * len(Profiled) + column, "i64")
        e.store(e.inst("i64", f"add {e.load('i64', place, 8)}, {amount}"), place, 8)
    e.br(f"{stem}.on")
    e.place(f"{stem}.on")


def _on_control_plane(op: Operation) -> bool:
    function = d.enclosing(op, d.FuncOp)
    return function is not None and function.static("kind") in CONTROL_KINDS
