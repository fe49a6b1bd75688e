"""Raising of cores: entries and calls, sections, sub-cores, blocks of a grid, event ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation, SSAValue

from tilejit.dtypes import BOOL, INDEX, INT64
from tilejit.frontend.pto.fifo import captured, outline
from tilejit.frontend.pto.flow import reached
from tilejit.frontend.pto.handles import Core, Events, NotRaisable
from tilejit.frontend.pto.scalars import dtype_of
from tilejit.tile_ir.pto.module import kernel_kind
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.types import EventArrayType
from tilejit.types.values import BufferType

if TYPE_CHECKING:
    from tilejit.frontend.pto.raiser import Raiser

_DEEPEST = 32


def run_entry(self: Raiser, entry: FuncOp) -> None:
    """The entry on every sub-core that runs it."""
    if self.crossing and kernel_kind(entry) is not None:
        raise NotRaisable("one side of a FIFO alone")
    count = _sub_cores(self, entry)
    self.calls.append(entry)
    for sub in range(count):
        self.core = Core(sub, count)
        self.block(entry.body.block)
    self.calls.pop()


def _sub_cores(self: Raiser, function: FuncOp) -> int:
    """Two sub-cores run a vector function that asks which one it is."""
    if kernel_kind(function) != "vector":
        return 1
    return _asking(list(reached(self.functions, function)))


def _asking(ops: list[Operation]) -> int:
    return 2 if any(op.name == "pto.get_subblock_idx" for op in ops) else 1


def call(self: Raiser, op: CallOp) -> None:
    """Calls are followed: the body runs in place, on the same core, or on cores of its own if it is for one kind of them."""
    caller = self.calls[-1]
    callee = self.functions[caller.parent_op(), op.callee.string_value()]
    arguments = [self.held(operand) for operand in op.operands]
    own_cores = kernel_kind(callee) is not None and kernel_kind(caller) is None and not op.results
    if len(self.calls) > _DEEPEST:
        raise NotRaisable("calls that nest too deeply")
    kind = kernel_kind(callee)
    if own_cores and self.crossing and kind is not None:
        outline(self, callee.sym_name.data, kind, callee.body.block, list(zip(callee.body.block.args, arguments)), callee)
        return
    self.calls.append(callee)
    outer = self.core
    count = _sub_cores(self, callee) if own_cores else 1
    passed: list[object] = []
    for sub in range(count):
        if own_cores:
            self.core = Core(sub, count)
        self.values.update(zip(callee.body.block.args, arguments))
        passed = self.block(callee.body.block)
    self.core = outer
    self.calls.pop()
    self.values.update(zip(op.results, passed))


def _section(self: Raiser, op: PtoOp) -> None:
    """A section runs in place; that of the vector core once for each sub-core that asks."""
    kind = op.row.name.removeprefix("section.")
    if self.crossing:
        outline(self, kind, kind, op.regions[0].block, captured(self, op), self.calls[-1])
        return
    count = _asking(list(op.walk())) if kind == "vector" else 1
    outer = self.core
    for sub in range(count):
        self.core = Core(sub, count, outer.placed)
        self.block(op.regions[0].block)
    self.core = outer


def _number(known: Callable[[Raiser], int | SSAValue | None]) -> Callable[[Raiser, PtoOp], None]:
    """The rule of an instruction that asks where it runs; what is not known here is asked at run time."""

    def rule(self: Raiser, op: PtoOp) -> None:
        found = known(self)
        if found is None:
            found = self.place(op.row.name)
        dtype = dtype_of(op.results[0].type)
        self.values[op.results[0]] = self.build.const(found, dtype) if isinstance(found, int) else self.cast(found, dtype)

    return rule


def _trap(self: Raiser, op: PtoOp) -> None:
    """The message stands behind the op, as a comment: `// error: TEXT`."""
    span = self.file.span(op)
    line = (span.source.line(span.line) if span is not None else None) or ""
    self.demand(self.build.const(False, BOOL), line.partition("// error: ")[2].strip() or "the kernel reached pto.trap")


# event ids -------------------------------------------------------------------------------------------------------------------


def _declare_events(self: Raiser, op: PtoOp) -> None:
    type = op.results[0].type
    count = type.data if isinstance(type, EventArrayType) else 8
    self.values[op.results[0]] = Events(self.build.create(BufferType((count,), INT64), [], 0))


def _events(self: Raiser, op: PtoOp) -> tuple[SSAValue, list[SSAValue]]:
    found = self.held(op.operand("array"))
    if not isinstance(found, Events):
        raise NotRaisable("an array of event ids that is none")
    return found.buffer, [self.ssa(self.number(op.operand("index")))]


def _get_event(self: Raiser, op: PtoOp) -> None:
    buffer, place = _events(self, op)
    self.values[op.results[0]] = self.cast(self.build.read(buffer, place), INDEX)


def _set_event(self: Raiser, op: PtoOp) -> None:
    buffer, place = _events(self, op)
    self.build.write(buffer, place, self.cast(self.ssa(self.number(op.operand("value"))), INT64))


OPS = {
    "section.cube": _section,
    "section.vector": _section,
    "get_block_idx": _number(lambda raiser: raiser.block_index),
    "get_block_num": _number(lambda raiser: raiser.block_count),
    "get_subblock_idx": _number(lambda raiser: raiser.core.sub),
    "get_subblock_num": _number(lambda raiser: raiser.core.subs),
    "trap": _trap,
    "declare_eventid_array": _declare_events,
    "eventid_array_get": _get_event,
    "eventid_array_set": _set_event,
}
