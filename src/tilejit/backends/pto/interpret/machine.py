"""Runs a verified PTO file: frames of SSA values, structured control flow, blocks of a grid, and the co-scheduled sides of a FIFO.

Every body is a generator that pauses where a tile is not there yet, so both sides of a FIFO run in one thread, in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from tilejit.backends.pto.interpret import compute, fifo, indexing, scalars, tiles
from tilejit.backends.pto.interpret.memory import LocalMemory
from tilejit.errors import DeadlockError, InternalError, KernelArithmeticError, TilejitError
from tilejit.runtime.call.failures import NOTE
from tilejit.tile_ir.pto.module import PtoFile, kernel_kind
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.pipes import pipe_groups
from tilejit.tile_ir.pto.spec import Along, Custom, Fold, Map, Matmul, Nothing, Part
from tilejit.tile_ir.pto.specs import CAPACITY
from tilejit.tile_ir.pto.verify import build_level

Value = Any
Steps = Generator[None, None, list[Value]]


class Machine:
    """A file ready to run."""

    def __init__(self, file: PtoFile, inside: bool = False) -> None:
        """`inside`: slices must stay inside of their views, as those of a kernel in Python do."""
        self.file = file
        self.inside = inside
        self.level = build_level(file)
        self.functions = {(function.parent_op(), function.sym_name.data): function for function in file.definitions()}
        self.groups = pipe_groups(file)

    def run(self, entry: FuncOp, arguments: Sequence[Value], grid: int = 1) -> None:
        """Launch `grid` blocks, one after the other."""
        with np.errstate(all="ignore"):  # Infinity and NaN are results like any other.
            for index in range(grid):
                Launch(self, index, grid).run(entry, arguments)

    def new_core(self) -> LocalMemory:
        return LocalMemory(CAPACITY[self.file.arch])

    def sub_cores(self, function: FuncOp) -> int:
        """How many vector sub-cores run a vector function: two when its FIFO tiles are split, or when it asks which one it is."""
        if kernel_kind(function) != "vector":
            return 1
        return _sub_cores(list(self._reached(function)))

    def _reached(self, function: FuncOp) -> Iterable[Operation]:
        for op in function.body.walk():
            yield op
            if isinstance(op, CallOp) and (callee := self.functions.get((function.parent_op(), op.callee.string_value()))) is not None:
                yield from self._reached(callee)


def _sub_cores(ops: list[Operation]) -> int:
    """Halves of tiles need both sub-cores, whole ones only the first; without a FIFO it counts whether the code asks."""
    if any(isinstance(op, PtoOp) and "split" in op.row.attributes for op in ops):
        return 2 if any(fifo.is_split(op) for op in ops) else 1
    return 2 if any(op.name == "pto.get_subblock_idx" for op in ops) else 1


@dataclass(eq=False)
class Task:
    """A side that runs until it must wait."""

    steps: Steps
    frame: Frame
    done: bool = False


@dataclass(eq=False)
class Launch:
    """One block of a launch: its sides and the FIFOs between them."""

    machine: Machine
    block: int
    blocks: int
    queues: fifo.Queues = field(default_factory=fifo.Queues)
    tasks: list[Task] = field(default_factory=list[Task])

    def run(self, entry: FuncOp, arguments: Sequence[Value]) -> None:
        count = self.machine.sub_cores(entry)
        for sub in range(count):
            frame = Frame(self, entry, self.machine.new_core(), sub, count)
            self.spawn(frame, frame.body(entry.body.block, list(arguments)))
        self.settle()
        waiting = [task for task in self.tasks if not task.done]
        if waiting:
            raise self._deadlock(waiting)

    def spawn(self, frame: Frame, steps: Steps) -> None:
        """Start a side and let all sides go on as far as they can."""
        self.tasks.append(Task(steps, frame))

    def settle(self) -> None:
        """Run the sides in turn until all are done or wait."""
        moved = True
        while moved:
            moved = False
            for task in list(self.tasks):
                if task.done or task.frame.running:
                    continue
                before = self.queues.moves
                task.frame.running = True
                try:
                    next(task.steps)
                except StopIteration:
                    task.done = moved = True
                finally:
                    task.frame.running = False
                moved = moved or self.queues.moves != before

    def _deadlock(self, waiting: list[Task]) -> DeadlockError:
        first = waiting[0].frame
        span = first.machine.file.span(first.at) if first.at is not None else None
        where = [f"@{task.frame.function.sym_name.data} waits in {task.frame.at.name}" for task in waiting if task.frame.at is not None]
        return DeadlockError("every side of the FIFO waits for a tile that nobody sends", span=span, where=where)


class Frame:
    """One running function on one core."""

    def __init__(self, launch: Launch, function: FuncOp, core: LocalMemory, sub: int, subs: int) -> None:
        self.launch = launch
        self.machine = launch.machine
        self.function = function
        self.core = core
        self.sub = sub
        self.subs = subs
        self.values: dict[SSAValue, Value] = {}
        self.running = False
        self.at: Operation | None = None

    @property
    def group(self) -> str:
        """Which FIFO the function belongs to."""
        return self.machine.groups.get(self.function, "")

    def value(self, value: SSAValue | None) -> Value:
        assert value is not None
        return self.values[value]

    def body(self, block: Block, arguments: list[Value]) -> Steps:
        """Run a block; the operands of its terminator."""
        self.values.update(zip(block.args, arguments))
        for op in block.ops:
            if isinstance(op, ReturnOp | scf.YieldOp | scf.ConditionOp):
                return [self.values[operand] for operand in op.operands]
            self.at = op
            try:
                results = yield from self.step(op)
            except TilejitError as error:
                if error.span is None:
                    error.note = error.note or NOTE
                    span = self.machine.file.span(op)
                    raise error.located(span) if span is not None else error from None
                raise
            self.values.update(zip(op.results, results))
        return []

    def step(self, op: Operation) -> Steps:
        """Run one op; its results."""
        if isinstance(op, PtoOp):
            return (yield from self._pto(op))
        if op.name.startswith("arith."):
            return [scalars.evaluate(op, [self.values[operand] for operand in op.operands])]
        if isinstance(op, scf.ForOp):
            return (yield from self._for(op))
        if isinstance(op, scf.IfOp):
            return (yield from self._if(op))
        if isinstance(op, scf.WhileOp):
            return (yield from self._while(op))
        if isinstance(op, CallOp):
            return (yield from self._call(op))
        raise InternalError(f"{op.name} does not run")

    # control flow -----------------------------------------------------------------------------------------------------------

    def _for(self, op: scf.ForOp) -> Steps:
        lower, upper, step = self.value(op.lb), self.value(op.ub), self.value(op.step)
        if step <= 0:
            raise KernelArithmeticError(f"the step of a loop must be positive, got {step}")
        carried = [self.values[value] for value in op.iter_args]
        for index in range(lower, upper, step):
            carried = yield from self.body(op.body.block, [index, *carried])
        return carried

    def _if(self, op: scf.IfOp) -> Steps:
        region = op.true_region if self.value(op.cond) else op.false_region
        return (yield from self.body(region.block, [])) if region.blocks else []

    def _while(self, op: scf.WhileOp) -> Steps:
        carried = [self.values[value] for value in op.arguments]
        while True:
            go_on, *carried = yield from self.body(op.before_region.block, carried)
            if not go_on:
                return carried
            carried = yield from self.body(op.after_region.block, carried)

    def _call(self, op: CallOp) -> Steps:
        callee = self.machine.functions[self.function.parent_op(), op.callee.string_value()]
        arguments = [self.values[operand] for operand in op.operands]
        if kernel_kind(callee) is None or kernel_kind(self.function) is not None or op.results:
            frame = Frame(self.launch, callee, self.core, self.sub, self.subs)
            return (yield from frame.body(callee.body.block, arguments))
        # A function of one kind of core runs beside its peer: it may wait for what the peer sends later.
        count = self.machine.sub_cores(callee)
        for sub in range(count):
            frame = Frame(self.launch, callee, self.machine.new_core(), sub, count)
            self.launch.spawn(frame, frame.body(callee.body.block, arguments))
        self.launch.settle()
        return []

    def section(self, op: PtoOp) -> None:
        """A section runs like a side of its own, on the memory of its function."""
        count = _sub_cores(list(op.walk())) if op.name == "pto.section.vector" else 1
        for sub in range(count):
            frame = Frame(self.launch, self.function, self.core, sub, count)
            frame.values.update(self.values)
            self.launch.spawn(frame, frame.body(op.regions[0].block, []))
        self.launch.settle()

    # ops of the table ---------------------------------------------------------------------------------------------------------

    def _pto(self, op: PtoOp) -> Steps:
        run = op.row.run
        if isinstance(run, Nothing):
            return []
        if isinstance(run, Custom):
            name = run.name or op.row.name
            if name == "section":
                self.section(op)
                return []
            if name in fifo.WAITING:
                return (yield from fifo.WAITING[name](self, op))
            return CUSTOM[name](self, op)
        FAMILIES[type(run)](self, op, run)
        return []


Step = Callable[[Frame, PtoOp], list[Value]]

FAMILIES: dict[type, Callable[..., None]] = {
    Map: compute.map_cells,
    Along: compute.map_along,
    Fold: compute.fold,
    Part: compute.partial,
    Matmul: compute.matmul,
}

CUSTOM: dict[str, Step] = {**tiles.STEPS, **compute.STEPS, **indexing.STEPS, **fifo.STEPS}
"""The ops whose rows say Custom()."""
