"""Kernels side by side: each member of a run, in each block and lane, becomes a fiber; whoever starts them waits for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from tilejit.backends.cpu.function import FunctionWriter, Unit, memory_failure
from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.backends.cpu.teams import fibers_text
from tilejit.backends.cpu.teams.fibers_layout import BARRIER_CLASSES, BARRIERS_SIZE, STACK_BYTES, Fiber, Queue
from tilejit.backends.cpu.teams.team import leave_on_failure
from tilejit.errors import Span, UnsupportedFeatureError
from tilejit.ops.sync import MIXED_CORES
from tilejit.runtime.call import abi
from tilejit.tile_ir.cross_core import Member, Run
from tilejit.tile_ir.transfers import Fifo

_PAGE = 4096
_LEAST_SCRATCH = 16 << 10
"""Scratch memory below which a fiber is not started."""


@dataclass(frozen=True, slots=True)
class Task:
    """A kernel to start: its function, its arguments, how often."""

    symbol: str
    args: Value
    member: Member
    count: Index | None = None
    """Number of blocks; None: in the caller's block."""


def define(unit: Unit) -> None:
    """Add the code that fibers need, once every function is written."""
    stack = STACK_BYTES + unit.module.stack_bytes
    fibers_text.define(unit.module, fibers_text.machine_of(host()), -(-stack // _PAGE) * _PAGE)


def current(f: FunctionWriter) -> Value:
    """The running fiber."""
    f.unit.fibers = True
    return f.e.load("ptr", f.e.offset(f.context, abi.FIBER, "i64"), 8)


def field(f: FunctionWriter, fiber: Value, slot: Fiber) -> Value:
    """A field of a fiber, as an address."""
    return f.e.load("ptr", f.e.offset(fiber, int(slot), "i64"), 8)


def lane(f: FunctionWriter) -> Value:
    """Which vector core runs the code."""
    if all(member.lanes == 1 for run in f.unit.cross.runs for member in run.members):
        return Value("0", "i64")
    f.unit.fibers = True
    return f.e.inst("i64", f"call i64 @fiber_lane({f.context})")


def queue(f: FunctionWriter, fifo: Fifo, side: Index) -> Value:
    """One lane's end of a FIFO of this run and block."""
    sets = field(f, current(f), Fiber.FIFOS)
    at = f.e.add(2 * f.unit.fifos.index(fifo) * int(Queue.SIZE), f.e.mul(side, int(Queue.SIZE)))
    return f.e.offset(sets, at, "i64")


# runs -------------------------------------------------------------------------------------------------------------------


def write_run(f: FunctionWriter, run: Run, tasks: Sequence[Task]) -> None:
    """Run all tasks to their end. Blocks that never meet are under way one after the other."""
    counts = [task.count for task in tasks]
    if run.syncs or counts[0] is None or any(count != counts[0] for count in counts):
        _start(f, run, tasks, None)
        return
    with f.e.loop(0, counts[0], name="blocks") as loop:
        _start(f, run, tasks, loop.iv)


def _start(f: FunctionWriter, run: Run, tasks: Sequence[Task], block: Value | None) -> None:
    """Start the fibers (of one block, or of all) and wait for them."""
    e, unit = f.e, f.unit
    unit.fibers = unit.needs_arena = True
    root = e.alloca(f"[{int(Fiber.SIZE)} x i64]")
    done = e.alloca("i64")
    e.store(Value("0", "i64"), done, 8)
    with f.scope():
        f.top = e.inst("ptr", f"call ptr @fiber_enter({f.context}, {root}, {f.top})")
        counts = [1 if block is not None or task.count is None else task.count for task in tasks]
        sets: Index = 1
        for count in counts:
            sets = e.max(sets, count)
        fifos = _new_fifos(f, run, sets)
        barriers = _new_barriers(f, run, tasks) if run.syncs else field(f, current(f), Fiber.BARRIERS)
        total: Index = 0
        for task, count in zip(tasks, counts, strict=True):
            total = e.add(total, e.mul(count, task.member.lanes))
        part = _part(f, run, total)
        first: Index = 0
        for task, count in zip(tasks, counts, strict=True):
            with e.loop(0, count, name="start") as loop:
                _spawn(f, task, e.add(first, e.mul(loop.iv, task.member.lanes)), part, loop.iv, block, fifos, barriers, done)
            first = e.add(first, e.mul(count, task.member.lanes))
        e.void(f"call void @fiber_wait({f.context}, {done}, {e.i64(total)}, i64 0)")
        leave_on_failure(e, e.inst("i64", f"call i64 @fiber_leave({f.context}, {root})"))


def _new_fifos(f: FunctionWriter, run: Run, sets: Index) -> Value:
    """Empty FIFOs, one set per block."""
    e = f.e
    if not run.fifos:
        return Value("null", "ptr")
    slots = 2 * int(Queue.SIZE) * len(f.unit.fifos)
    memory = f.allocate(e.mul(sets, 8 * slots), run.last.span)
    with e.loop(0, e.mul(sets, slots), name="clear") as loop:
        e.store(Value("0", "i64"), e.offset(memory, loop.iv, "i64"), 8)
    with e.loop(0, sets, name="readers") as loop:
        for fifo in run.fifos:
            at = e.add(e.mul(loop.iv, slots), 2 * f.unit.fifos.index(fifo) * int(Queue.SIZE) + int(Queue.READERS))
            e.store(Value(str(run.readers(fifo)), "i64"), e.offset(memory, at, "i64"), 8)
    return memory


def _new_barriers(f: FunctionWriter, run: Run, tasks: Sequence[Task]) -> Value:
    """Barriers at which nobody has arrived, and how many are expected."""
    e = f.e
    memory = e.alloca(f"[{BARRIERS_SIZE} x i64]")
    for i in range(BARRIERS_SIZE):
        e.store(Value("0", "i64"), e.offset(memory, i, "i64"), 8)
    for i, name in enumerate(BARRIER_CLASSES):
        expected: Index = 0
        each = [f.unit.cross.met(task.member)[name] * task.member.lanes for task in tasks]
        for task, of_a_block in zip(tasks, each, strict=True):
            expected = e.add(expected, e.mul(1 if task.count is None else task.count, of_a_block))
        e.store(e.i64(expected), e.offset(memory, 2 * len(BARRIER_CLASSES) + i, "i64"), 8)
        e.store(e.i64(sum(each) if name == "mix" else MIXED_CORES), e.offset(memory, 3 * len(BARRIER_CLASSES) + i, "i64"), 8)
    return memory


def _part(f: FunctionWriter, run: Run, total: Index) -> Value:
    """Bytes of memory for each fiber."""
    e = f.e
    end = e.load("i64", e.offset(f.context, abi.ARENA_END, "i64"), 8)
    room = e.inst("i64", f"sub {end}, {f.e.address(f.top).text}")
    part = e.inst("i64", f"sdiv {room}, {e.i64(e.max(total, 1)).text}")
    rounded = e.inst("i64", f"and {part}, {-_PAGE}")
    stack = e.inst("i64", "call i64 @fiber_room()")
    least = e.add(stack, _LEAST_SCRATCH)
    f.fail_if(e.icmp("slt", rounded, least), memory_failure(run.last.span), [e.mul(least, total), room])
    return rounded


def _spawn(f: FunctionWriter, task: Task, number: Index, part: Value, index: Value, block: Value | None, fifos: Value, barriers: Value, done: Value) -> None:
    e = f.e
    slots = 2 * int(Queue.SIZE) * len(f.unit.fifos)
    own = e.offset(fifos, e.mul(index, slots), "i64") if fifos.text != "null" else fifos
    if task.count is None:
        place: Value = f.block_index
        blocks: Index = f.block_count
    else:
        place, blocks = index if block is None else block, task.count
    for which in range(task.member.lanes):
        memory = e.offset(f.top, e.mul(e.add(number, which), part), "i8")
        facts = f"{f.context}, {memory}, {part}, ptr @{task.symbol}, {task.args}, {place}, {e.i64(blocks)}, i64 {which}, {own}, {barriers}, {done}"
        e.void(f"call void @fiber_spawn({facts})")


def refuse_results(callee: str, span: Span | None) -> NoReturn:
    """Kernels that run side by side hand their results back through parameters."""
    raise UnsupportedFeatureError(f"`{callee}` runs beside other kernels and returns a new tensor", span=span, help="write it into a pl.Out parameter instead")
