"""The host program under construction: its values, its steps, and the kernels it launches."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from xdsl.ir import Block, Operation, SSAValue

from tilejit.backends.base import CompileOptions
from tilejit.backends.cuda import plan, schedule
from tilejit.backends.cuda.control_plane import host
from tilejit.backends.cuda.control_plane.host import HostValue, Memory, Number
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.program.failures import FailureTable
from tilejit.backends.cuda.schedule import Book, ProductSchedule, RowSchedule
from tilejit.backends.cuda.text.values import Value, index
from tilejit.backends.cuda.text.writer import Writer
from tilejit.dtypes import INDEX, DType
from tilejit.errors import UnsupportedFeatureError
from tilejit.passes.kernels import name_hint
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.cross_core import CrossCore
from tilejit.tile_ir.names import unique_name
from tilejit.tile_ir.program import Program


@dataclass
class State:
    """What all entries share."""

    program: Program
    options: CompileOptions
    interpreted: bool = False
    kernels: list[plan.Kernel] = field(default_factory=list[plan.Kernel])
    failures: FailureTable = field(default_factory=FailureTable)

    def __post_init__(self) -> None:
        self.functions = self.program.functions
        self.made: list[plan.Kernel] = []
        """The kernels under the names they asked for."""
        self.cross = CrossCore(self.program)
        self.book = Book(json.loads(self.options.schedule or "{}"))

    def add(self, kernel: plan.Kernel) -> int:
        """The position of a kernel; equal ones share it, others of its name get a number."""
        for position, other in enumerate(self.made):
            if other == kernel:
                return position
        self.made.append(kernel)
        name = unique_name(kernel.name, {other.name for other in self.kernels})
        text = kernel.text.replace(f"def {kernel.name}(", f"def {name}(")
        self.kernels.append(replace(kernel, name=name, text=text))
        return len(self.kernels) - 1


class Frame:
    """A function of the control plane on its way to steps."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.steps: list[plan.Step] = []
        self.values: dict[SSAValue, HostValue] = {}
        self.taken: set[str] = set()
        self.within: Callable[[Block], None] | None = None
        """Runs the ops of a block of a kernel whose loops and branches the host does."""
        self.keeps = False
        """Whether values of a program may leave it, through memory: the kernel is cut where it waits for other ranks."""
        self.block_index, self.block_count, self.lane = host.number(0), host.number(1), host.number(0)
        """Which of how many blocks the host is running."""

    def fresh(self, hint: str) -> str:
        name = unique_name(hint, self.taken)
        self.taken.add(name)
        return name

    # values -------------------------------------------------------------------------------------------------------------

    def number(self, value: SSAValue) -> Number:
        found = self.values[value]
        assert isinstance(found, Number), value
        return found

    def memory(self, value: SSAValue) -> Memory:
        found = self.values[value]
        assert isinstance(found, Memory), value
        return found

    def named(self, value: Number, hint: str) -> Number:
        """A number that is computed once."""
        if isinstance(value.expr, plan.Var) or value.const is not None:
            return value
        name = self.fresh(hint)
        self.steps.append(plan.Compute(name, value.expr))
        return Number(plan.Var(name), value.dtype, value.bounds)

    # blocks -------------------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> list[HostValue]:
        last = block.last_op
        ends = isinstance(last, d.ReturnOp | d.YieldOp | d.ConditionOp)
        if self.within is not None:
            self.within(block)
        else:
            for op in block.ops:
                if not (ends and op is last):
                    self.step(op)
        return [self.values[operand] for operand in last.operands if operand in self.values] if ends and last is not None else []

    def step(self, op: Operation) -> None:
        from tilejit.backends.cuda.lower import RULES

        rule = RULES.get(type(op))
        if rule is None:
            raise UnsupportedFeatureError(f"CUDA does not run {op.name} on the control plane yet", span=op.span if isinstance(op, d.TileOp) else None)
        rule(self, op)

    def inner(self, run: Callable[[], None]) -> tuple[plan.Step, ...]:
        """The steps that `run` makes, apart."""
        saved, self.steps = self.steps, []
        run()
        made, self.steps = self.steps, saved
        return tuple(made)

    def allocate(self, extents: Sequence[Number], dtype: DType, hint: str) -> Memory:
        name = self.fresh(hint)
        size = host.mul(host.product(extents), host.number(dtype.get_byte()))
        self.steps.append(plan.Allocate(name, size.expr, keep=True))
        bounded = [Number(extent.expr, INDEX, extent.bounds or host.EXTENT) for extent in extents]
        return Memory(plan.Var(name), host.contiguous(bounded), dtype, name, hint)

    def check(self, condition: Number, failure: int, values: Sequence[Number]) -> None:
        self.steps.append(plan.Check(condition.expr, failure, tuple(value.expr for value in values)))

    def attempt(self, run: Callable[[], None]) -> UnsupportedFeatureError | None:
        """Run what may turn out to be impossible: then nothing of it stays, and the reason is given back."""
        state = self.state
        saved = dict(self.values), list(self.steps), list(state.kernels), list(state.made), list(state.failures.rows), dict(state.book.made)
        try:
            run()
        except UnsupportedFeatureError as error:
            self.values, self.steps, state.kernels, state.made, state.failures.rows, state.book.made = saved
            return error
        return None

    # kernels --------------------------------------------------------------------------------------------------------------

    def kernel(self, name: str) -> Making:
        return Making(self, name)

    def finish(
        self, kernel: Making, programs: Number, chosen: RowSchedule | ProductSchedule | None = None, warps: int | None = None, note: str = "", meeting: int = 0,
        options: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Add a kernel to the plan, and launch it; without a schedule `warps`, or so many as its largest tile needs; `meeting`: bytes of each of a gang."""
        text, lines = kernel.out.finish()
        followed = chosen or self.state.book.block(kernel.out.name, warps or schedule.warps_of(text), 3)
        alone = not kernel.out.scratch and not kernel.out.rooms
        walkers = schedule.walkers_of(kernel.out.blocks, kernel.out.copied * followed.stages) if alone else 0
        if walkers:
            kernel.out.walks = True
            text, lines = kernel.out.finish()
        options = {"enable_fp_fusion": self.state.options.fast_math and adds_up(text), "enable_reflect_ftz": False, **options}
        for name, size in kernel.out.rooms.items():
            self.steps.append(plan.Allocate(name, host.mul(Number(size, INDEX, None), programs).expr, keep=True))
        parameters = tuple(parameter for parameter, _ in kernel.out.parameters)
        made = plan.Kernel(
            kernel.out.name, text, parameters, followed.warps, followed.stages, options, kernel.out.scratch,
            max(1, chosen.parts) if isinstance(chosen, RowSchedule) else 1, meeting, lines, f"{note}{followed}", walkers=walkers,
        )  # fmt: skip
        arguments = tuple(argument for parameter, argument in kernel.out.parameters if parameter.kind in ("pointer", "scalar") and argument is not None)
        self.steps.append(plan.Launch(self.state.add(made), (programs.expr, 1, 1), arguments))


def adds_up(text: str) -> bool:
    """Whether a kernel sums or multiplies matrices, in whatever order: only there a multiply-add may round once. All others have the bits of the reference."""
    return any(f"tl.{name}(" in text for name in ("dot", "sum", "associative_scan"))


class Making:
    """A kernel under construction, and the body of its programs."""

    def __init__(self, frame: Frame, name: str) -> None:
        self.frame = frame
        self.out = Writer(name)
        self.out.taken.add(name)
        self.body = Body(self.out, self._outside, frame.state.functions, frame.state.failures, frame.state.options, frame.state.interpreted)
        if frame.block_index.const is None:
            self.body.block_index, self.body.block_count = (host.take_number(self.out, at, "block") for at in (frame.block_index, frame.block_count))

    def again(self, lane: int) -> Body:
        """Another body in the same program."""
        made = Body(self.out, self._outside, self.body.functions, self.body.failures, self.body.options, self.body.interpreted)
        made.order, made.block_index, made.block_count, made.lane = self.body.order, self.body.block_index, self.body.block_count, index(lane)
        return made

    def _outside(self, value: SSAValue) -> Value:
        found = self.frame.values.get(value)
        if found is None:
            raise KeyError(f"no value for {value}")
        return self.take(found, name_hint(value) or "x")

    def take(self, found: HostValue, hint: str) -> Value:
        if isinstance(found, Number):
            return host.take_number(self.out, found, hint)
        if isinstance(found, host.Cells):
            what = "CUDA does not pass an array of the control plane to a kernel yet"
            raise UnsupportedFeatureError(what, help="make the array in the kernel, or pass a tensor")
        assert isinstance(found, Memory)
        return host.take_memory(self.out, found)

    def over_blocks(self, blocks: Number) -> None:
        """Programs are the blocks of pl.spmd."""
        from tilejit.backends.cuda.text.values import Scalar

        most = blocks.bounds[1] if blocks.bounds else (1 << 31) - 1
        self.body.block_index = Scalar(self.out.program(), INDEX, (0, max(0, most - 1)))
        self.body.block_count = host.take_number(self.out, blocks, "blocks") if blocks.const is None else index(int(blocks.const))
