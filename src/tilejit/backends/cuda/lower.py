"""A program as a plan: walks the control plane, makes the host's steps, and a Triton kernel for each launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from xdsl.ir import Block, Operation, SSAValue

from tilejit import ops
from tilejit.backends import checks
from tilejit.backends.base import CompileOptions
from tilejit.backends.cuda import host, plan, schedule
from tilejit.backends.cuda.body import Body
from tilejit.backends.cuda.failures import FailureTable
from tilejit.backends.cuda.host import Axis, HostValue, Memory, Number
from tilejit.backends.cuda.values import Value, index
from tilejit.backends.cuda.writer import Writer
from tilejit.dtypes import BOOL, INDEX, DType
from tilejit.errors import UnsupportedFeatureError
from tilejit.passes.kernels import name_hint, unique_name
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args
from tilejit.tile_ir.cross_core import CrossCore, Run
from tilejit.tile_ir.program import Program
from tilejit.types.values import BufferType, ScalarType, ShapedType


def lower(program: Program, options: CompileOptions, interpreted: bool = False) -> plan.Program:
    """Plan every entry of a program that the CUDA passes prepared."""
    state = State(program, options, interpreted)
    entries = {name: _entry(state, function) for name, function in program.entries.items()}
    return plan.Program(tuple(state.kernels), entries, tuple(state.failures.rows))


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


def _entry(state: State, function: d.FuncOp) -> plan.Entry:
    frame = Frame(state)
    names = function.static("params")
    assert isinstance(names, tuple)
    inputs: list[plan.Input] = []
    symbols: dict[str, Number] = {}
    for position, (name, argument) in enumerate(zip(names, function.body.block.args, strict=True)):
        type = d.type_of(argument)
        if isinstance(type, ScalarType):
            inputs.append(plan.Input(frame.fresh(str(name)), position, "value"))
            frame.values[argument] = host.variable(inputs[-1].name, type.dtype)
            continue
        assert isinstance(type, BufferType)
        own = frame.fresh(str(name))
        inputs.append(plan.Input(own, position, "address"))
        extents: list[Number] = []
        for axis, extent in enumerate(type.shape):
            if isinstance(extent, int):
                extents.append(host.number(extent))
            elif extent in symbols and extent != "?":
                extents.append(symbols[extent])
            else:
                inputs.append(plan.Input(frame.fresh(f"{own}_size{axis}"), position, "extent", axis))
                extents.append(host.variable(inputs[-1].name, INDEX, host.EXTENT))
                symbols[extent] = extents[-1]
        axes = host.contiguous(extents)
        if (function.symbol, name) in state.options.strided:
            strides: list[Number] = []
            for axis in range(type.rank):
                inputs.append(plan.Input(frame.fresh(f"{own}_stride{axis}"), position, "stride", axis))
                strides.append(host.variable(inputs[-1].name))
            axes = tuple(Axis(extent, stride) for extent, stride in zip(extents, strides, strict=True))
        frame.values[argument] = Memory(plan.Var(own), axes, type.dtype, own, str(name))
    kind = function.static("kind")
    if kind in ("incore", "aic", "aiv"):
        frame.launch_function(function, None, function)
    else:
        frame.block(function.body.block)
    return plan.Entry(function.symbol, tuple(inputs), tuple(frame.steps))


class Frame:
    """A function of the control plane on its way to steps."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.steps: list[plan.Step] = []
        self.values: dict[SSAValue, HostValue] = {}
        self.taken: set[str] = set()

    def fresh(self, hint: str) -> str:
        name, count = hint, 0
        while name in self.taken:
            count += 1
            name = f"{hint}_{count}"
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
        for op in block.ops:
            if isinstance(op, d.ReturnOp | d.YieldOp | d.ConditionOp):
                return [self.values[operand] for operand in op.operands if operand in self.values]
            self.step(op)
        return []

    def step(self, op: Operation) -> None:
        rule = _RULES.get(type(op))
        if rule is None:
            raise UnsupportedFeatureError(f"CUDA does not run {op.name} on the control plane yet", span=op.span if isinstance(op, d.TileOp) else None)
        rule(self, op)

    def inner(self, run: Callable[[], None]) -> tuple[plan.Step, ...]:
        """The steps that `run` makes, apart."""
        saved, self.steps = self.steps, []
        run()
        made, self.steps = self.steps, saved
        return tuple(made)

    # numbers ------------------------------------------------------------------------------------------------------------

    def const(self, op: d.ConstOp) -> None:
        type, value = d.type_of(op.result), op.static("value")
        assert isinstance(type, ScalarType) and isinstance(value, bool | int | float)
        self.values[op.result] = Number(value, type.dtype, (value, value) if isinstance(value, int) and not isinstance(value, bool) else None)

    def apply(self, op: d.ApplyOp) -> None:
        result = op.results[0]
        type = d.type_of(result)
        if op.op in _HOST_CONSTANTS:
            self.values[result] = Number(_HOST_CONSTANTS[op.op], INDEX if op.op != "task_invalid" else type.dtype)  # type: ignore[union-attr]
            return
        if not isinstance(type, ScalarType):
            raise UnsupportedFeatureError(f"CUDA does not run `{op.op}` on the control plane yet", span=op.span)
        args = apply_args(op)
        names = ops.table()[op.op].operands
        given = [self.number(value) for name in names if isinstance(value := args.get(name), SSAValue)]
        made = host.apply_row(op.op, given, type.dtype, {k: v for k, v in args.items() if not isinstance(v, SSAValue)})
        self.values[result] = self.named(made, name_hint(result) or "n") if type.dtype is not INDEX or isinstance(made.expr, plan.Apply) else made

    def dim(self, op: d.DimOp) -> None:
        axis = op.static("axis")
        assert isinstance(axis, int)
        self.values[op.result] = self.memory(op.source).shape[axis]

    # memory -------------------------------------------------------------------------------------------------------------

    def create(self, op: d.CreateOp) -> None:
        type = d.shaped_type(op.result)
        dynamic = iter([self.number(extent) for extent in op.extents])
        extents = [host.number(extent) if isinstance(extent, int) else next(dynamic) for extent in type.shape]
        for axis, extent in enumerate(extents):
            if extent.bounds is None or extent.bounds[0] < 0:
                self.check(
                    host.apply_row("cmp", [extent, host.number(0)], BOOL, {"cmp_type": 5}), self.state.failures.row(checks.create_failure(op, axis)), [extent]
                )
        made = self.allocate(extents, type.dtype, name_hint(op.result) or "buffer")
        self.values[op.result] = made
        init = op.static("init")
        if isinstance(init, int | float):
            from tilejit.backends.cuda.spread import fill

            fill(self, made, init, op)

    def allocate(self, extents: Sequence[Number], dtype: DType, hint: str) -> Memory:
        name = self.fresh(hint)
        size = host.mul(host.product(extents), host.number(dtype.get_byte()))
        self.steps.append(plan.Allocate(name, size.expr, keep=True))
        bounded = [Number(extent.expr, INDEX, extent.bounds or host.EXTENT) for extent in extents]
        return Memory(plan.Var(name), host.contiguous(bounded), dtype, name, hint)

    def check(self, condition: Number, failure: int, values: Sequence[Number]) -> None:
        self.steps.append(plan.Check(condition.expr, failure, tuple(value.expr for value in values)))

    def window(self, op: d.WindowOp) -> None:
        source = self.memory(op.buffer)
        offsets, sizes = [self.number(item) for item in op.offsets], [self.number(item) for item in op.extents]
        drop, clamp = op.static("drop", ()), bool(op.static("clamp"))
        assert isinstance(drop, tuple)
        kept: list[Number] = []
        for axis, (offset, size, extent) in enumerate(zip(offsets, sizes, source.shape, strict=True)):
            if clamp:
                size = host.minimum(host.maximum(host.sub(extent, offset), host.number(0)), host.maximum(size, host.number(0)))
            self._check_box(op, axis, offset, size, extent, clamp)
            kept.append(self.named(size, "size"))
        offset = host.total([host.mul(start, axis.stride) for start, axis in zip(offsets, source.axes, strict=True)])
        type = d.shaped_type(op.result)
        axes = [Axis(size, axis.stride) for number, (size, axis) in enumerate(zip(kept, source.axes, strict=True)) if number not in drop]
        axes = [Axis(host.number(extent), axis.stride) if isinstance(extent, int) else axis for extent, axis in zip(type.shape, axes, strict=True)]
        made = host.at(source, offset, tuple(axes))
        address = self.named(Number(made.address, INDEX), f"{source.name}_part")
        self.values[op.result] = Memory(address.expr, made.axes, made.dtype, made.root, source.name)

    def _check_box(self, op: d.WindowOp, axis: int, offset: Number, size: Number, extent: Number, clamp: bool) -> None:
        end = host.add(offset, size)
        row = self.state.failures.row(checks.box_failure(op, axis)) if self.state.options.check_bounds else -1
        if row < 0:
            return
        if offset.bounds is None or offset.bounds[0] < 0:
            self.check(host.apply_row("cmp", [offset, host.number(0)], BOOL, {"cmp_type": 5}), row, [offset, size, extent])
        if not clamp and (size.bounds is None or size.bounds[0] < 0):
            self.check(host.apply_row("cmp", [size, host.number(0)], BOOL, {"cmp_type": 5}), row, [offset, size, extent])
        certain = end.bounds and extent.bounds and end.bounds[1] <= extent.bounds[0]
        if not clamp and not certain and not host.same(end, extent):
            self.check(host.apply_row("cmp", [end, extent], BOOL, {"cmp_type": 3}), row, [offset, size, extent])

    def view(self, op: d.ViewOp) -> None:
        source, type = self.memory(op.buffer), d.shaped_type(op.result)
        dynamic = iter([self.number(extent) for extent in op.extents])
        extents = [host.number(extent) if isinstance(extent, int) else next(dynamic) for extent in type.shape]
        if not host.is_contiguous(source):
            from tilejit.backends.cuda.views import reshaped

            axes = reshaped(source, extents) if type.dtype.get_byte() == source.dtype.get_byte() else None
            if axes is None:
                raise UnsupportedFeatureError("CUDA has no view of a tensor with gaps", span=op.span, help="copy the slice into a tensor of its own first")
        else:
            axes = host.contiguous(extents)
            old = host.mul(host.product(source.shape), host.number(source.dtype.get_byte()))
            new = host.mul(host.product(extents), host.number(type.dtype.get_byte()))
            if not host.same(old, new) and (old.const is None or new.const is None):
                row = self.state.failures.row(checks.view_failure(op))
                self.check(host.apply_row("cmp", [old, new], BOOL, {"cmp_type": 0}), row, [host.product(source.shape), host.product(extents)])
        self.values[op.result] = Memory(source.address, axes, type.dtype, source.root, source.name)

    def strided(self, op: d.StridedOp) -> None:
        source, type = self.memory(op.buffer), d.shaped_type(op.result)
        start, extents, strides = self.number(op.start), [self.number(item) for item in op.extents], [self.number(item) for item in op.strides]
        axes = tuple(Axis(extent, stride) for extent, stride in zip(extents, strides, strict=True))
        zero = host.number(0)
        reach = [host.mul(host.sub(axis.extent, host.number(1)), axis.stride) for axis in axes]
        cells = host.floordiv(host.mul(host.product(source.shape), host.number(source.dtype.get_byte())), host.number(type.dtype.get_byte()))
        low, high = (host.add(start, host.total([pick(item, zero) for item in reach])) for pick in (host.minimum, host.maximum))
        row = self.state.failures.row(checks.reach_failure(op))
        if not (low.bounds and low.bounds[0] >= 0):
            self.check(host.apply_row("cmp", [low, zero], BOOL, {"cmp_type": 5}), row, [low, high, cells])
        if not (high.bounds and cells.bounds and high.bounds[1] < cells.bounds[0]):
            self.check(host.apply_row("cmp", [high, cells], BOOL, {"cmp_type": 2}), row, [low, high, cells])
        self.values[op.result] = host.at(Memory(source.address, (), type.dtype, source.root, source.name), start, axes)

    def read(self, op: d.ReadOp) -> None:
        source = self.memory(op.source)
        indices = [self.number(item) for item in op.indices]
        for axis, (at, extent) in enumerate(zip(indices, source.shape, strict=True)):
            if not (at.bounds and extent.bounds and at.bounds[0] >= 0 and at.bounds[1] < extent.bounds[0]):
                row = self.state.failures.row(checks.element_failure(op, axis))
                self.check(host.apply_row("cmp", [at, host.number(0)], BOOL, {"cmp_type": 5}), row, [at, extent])
                self.check(host.apply_row("cmp", [at, extent], BOOL, {"cmp_type": 2}), row, [at, extent])
        cell = host.at(source, host.total([host.mul(at, axis.stride) for at, axis in zip(indices, source.axes, strict=True)]), ())
        name = self.fresh(name_hint(op.result) or "cell")
        self.steps.append(plan.Read(name, cell.address, source.dtype.name))
        self.values[op.result] = host.variable(name, source.dtype)

    def check_op(self, op: d.CheckOp) -> None:
        left, right = self.number(op.left), self.number(op.right)
        if not host.same(left, right):
            self.check(host.apply_row("cmp", [left, right], BOOL, {"cmp_type": 0}), self.state.failures.row(checks.extent_failure(op)), [left, right])

    # control flow ---------------------------------------------------------------------------------------------------------

    def _carry(self, arguments: Sequence[SSAValue], values: Sequence[HostValue], hints: Sequence[str | None]) -> list[str]:
        """Variables for carried values: the arguments stand for them."""
        names: list[str] = []
        for argument, value, hint in zip(arguments, values, hints, strict=True):
            base = hint or "carried"
            if isinstance(value, Number):
                names.append(self.fresh(base))
                self.values[argument] = Number(plan.Var(names[-1]), value.dtype)
                continue
            address = self.fresh(base)
            names.append(address)
            axes: list[Axis] = []
            type = d.type_of(argument)
            assert isinstance(type, ShapedType)
            for i, (axis, extent) in enumerate(zip(value.axes, type.shape, strict=True)):
                parts: list[Number] = []
                for part, own in (("size", axis.extent), ("stride", axis.stride)):
                    if part == "size" and isinstance(extent, int):
                        parts.append(host.number(extent))
                        continue
                    names.append(self.fresh(f"{address}_{part}{i}"))
                    parts.append(Number(plan.Var(names[-1]), INDEX, host.EXTENT if part == "size" else own.bounds and None))
                axes.append(Axis(parts[0], parts[1]))
            if host.is_contiguous(value) and all(axis.extent.const is not None for axis in axes):
                # Constant shapes without gaps need no variables for their strides; those made above stay unused.
                kept = host.contiguous([axis.extent for axis in axes])
                for axis in axes:
                    if isinstance(axis.stride.expr, plan.Var):
                        names.remove(axis.stride.expr.name)
                axes = list(kept)
            self.values[argument] = Memory(plan.Var(address), tuple(axes), value.dtype, f"any:{address}", base)
        return names

    def _flatten(self, arguments: Sequence[SSAValue], values: Sequence[HostValue]) -> tuple[plan.Expr, ...]:
        out: list[plan.Expr] = []
        for argument, value in zip(arguments, values, strict=True):
            target = self.values[argument]
            if isinstance(value, Number):
                out.append(value.expr)
                continue
            assert isinstance(target, Memory)
            out.append(value.address)
            for own, given in zip(target.axes, value.axes, strict=True):
                out += [
                    part.expr
                    for want, part in ((own.extent, given.extent), (own.stride, given.stride))
                    if isinstance(want.expr, plan.Var) and str(want.expr.name).startswith(str(_name(target)))
                ]
        return tuple(out)

    def for_(self, op: d.ForOp) -> None:
        from tilejit.backends.cuda.spread import loop_as_grid

        if loop_as_grid(self, op):
            return
        block = op.body.block
        inits = [self.values[init] for init in op.inits]
        names = self._carry(block.args[1:], inits, [name_hint(argument) for argument in block.args[1:]])
        if names:
            self.steps.append(plan.Move(tuple(names), self._flatten(block.args[1:], inits)))
        lower, upper, step = (self.number(item) for item in (op.lower, op.upper, op.step))
        target = self.fresh(name_hint(block.args[0]) or "i")
        known = lower.bounds and upper.bounds and isinstance(step.const, int) and step.const > 0
        bounds = (lower.bounds[0], max(lower.bounds[0], upper.bounds[1] - 1)) if known and lower.bounds and upper.bounds else None
        self.values[block.args[0]] = host.variable(target, INDEX, bounds)

        def run() -> None:
            yielded = self.block(block)
            if names:
                self.steps.append(plan.Move(tuple(names), self._flatten(block.args[1:], yielded)))

        self.steps.append(plan.For(target, lower.expr, upper.expr, step.expr, self.inner(run)))
        for result, argument in zip(op.results, block.args[1:], strict=True):
            self.values[result] = self.values[argument]

    def while_(self, op: d.WhileOp) -> None:
        before, block = op.before.block, op.body.block
        inits = [self.values[init] for init in op.inits]
        names = self._carry(before.args, inits, [name_hint(argument) for argument in before.args])
        if names:
            self.steps.append(plan.Move(tuple(names), self._flatten(before.args, inits)))
        found: list[HostValue] = []

        def test() -> None:
            found.extend(self.block(before))

        first = self.inner(test)
        condition, *values = found
        assert isinstance(condition, Number)
        for argument, value in zip(block.args, values, strict=True):
            self.values[argument] = value

        def run() -> None:
            yielded = self.block(block)
            if names:
                self.steps.append(plan.Move(tuple(names), self._flatten(before.args, yielded)))

        self.steps.append(plan.While(first, condition.expr, self.inner(run)))
        for result, value in zip(op.results, values, strict=True):
            self.values[result] = value

    def if_(self, op: d.IfOp) -> None:
        condition = self.number(op.condition)
        if condition.const is not None:
            values = self.block(op.then.block if condition.const else op.orelse.block)
            for result, value in zip(op.results, values, strict=True):
                self.values[result] = value
            return
        names: list[str] = []

        def then() -> None:
            values = self.block(op.then.block)
            names.extend(self._carry(op.results, values, [name_hint(result) for result in op.results]))
            if names:
                self.steps.append(plan.Move(tuple(names), self._flatten(op.results, values)))

        def orelse() -> None:
            values = self.block(op.orelse.block)
            if names:
                self.steps.append(plan.Move(tuple(names), self._flatten(op.results, values)))

        first = self.inner(then)
        self.steps.append(plan.If(condition.expr, first, self.inner(orelse)))

    # functions ------------------------------------------------------------------------------------------------------------

    def woven(self, op: d.CallOp | d.LaunchOp) -> bool:
        """Kernels that wait for each other become one kernel, where the last of them stands."""
        run = self.state.cross.run_of(op)
        if run is None or not run.transfers:
            return False
        if op is not run.last:
            return True
        counts = [self.number(member.blocks) if member.blocks is not None else None for member in run.members]
        blocks = counts[0]
        if any((count is None) != (blocks is None) or (count is not None and blocks is not None and not host.same(count, blocks)) for count in counts):
            raise UnsupportedFeatureError(
                "CUDA runs kernels side by side in equal numbers of blocks only", span=op.span, help="give both sides the same number of blocks"
            )
        weave(self, run, blocks)
        return True

    def call(self, op: d.CallOp) -> None:
        if self.woven(op):
            return
        function = self.state.functions[op.callee.data]
        if function.static("kind") in ("incore", "aic", "aiv"):
            self._bound(function, op.args)
            self.launch_function(function, None, op)
            return
        self._bound(function, op.args)
        returned = self.block(function.body.block)
        terminator = function.body.block.last_op
        assert isinstance(terminator, d.ReturnOp)
        params = set(function.body.block.args)
        results = [self.values[operand] for operand in terminator.values if operand not in params]
        _ = returned
        for result, value in zip(op.results, results, strict=True):
            self.values[result] = value

    def _bound(self, function: d.FuncOp, args: Sequence[SSAValue]) -> None:
        """Begin a function: nothing is known of its values but its arguments."""
        for op in function.walk():
            for result in op.results:
                self.values.pop(result, None)
        for param, arg in zip(function.body.block.args, args, strict=True):
            self.values[param] = self.values[arg]

    def launch(self, op: d.LaunchOp) -> None:
        if self.woven(op):
            return
        function = self.state.functions[op.callee.data]
        self._bound(function, op.args)
        blocks = self.number(op.blocks) if op.blocks is not None else None
        self.launch_function(function, blocks, op)

    def launch_function(self, function: d.FuncOp, blocks: Number | None, op: Operation) -> None:
        from tilejit.backends.cuda.phases import run_in_phases
        from tilejit.backends.cuda.spread import blocks_as_product, spread

        if function.static("kind") == "group":
            self.group(function, blocks)
            return
        if blocks is None and spread(self, function):
            return
        if blocks is not None and (run_in_phases(self, function, blocks) or blocks_as_product(self, function, blocks)):
            return
        kernel = self.kernel(function.symbol)
        if blocks is not None:
            kernel.over_blocks(blocks)
        kernel.body.run(function.body.block)
        self.finish(kernel, blocks or host.number(1))

    def group(self, function: d.FuncOp, blocks: Number | None) -> None:
        """The kernels of a group, each in all blocks; those that wait for each other are one kernel."""
        for op in function.body.block.ops:
            if isinstance(op, d.ReturnOp):
                return
            if isinstance(op, d.CallOp | d.LaunchOp) and blocks is not None:
                run = self.state.cross.run_of(op)
                if run is None:
                    callee = self.state.functions[op.callee.data]
                    self._bound(callee, op.args)
                    self.launch_function(callee, blocks, op)
                elif op is run.last:
                    weave(self, run, blocks)
            else:
                self.step(op)

    # kernels --------------------------------------------------------------------------------------------------------------

    def kernel(self, name: str) -> Making:
        return Making(self, name)

    def finish(self, kernel: Making, programs: Number, warps: int | None = None, stages: int = 3, note: str = "") -> None:
        """Add a kernel to the plan, and launch it."""
        text, lines = kernel.out.finish()
        options = {"enable_fp_fusion": self.state.options.fast_math, "enable_reflect_ftz": False}
        parameters = tuple(parameter for parameter, _ in kernel.out.parameters)
        made = plan.Kernel(
            kernel.out.name, text, parameters, warps or schedule.warps_of(text), stages, options, kernel.out.scratch, lines=lines, schedule=note
        )  # fmt: skip
        arguments = tuple(argument for parameter, argument in kernel.out.parameters if parameter.kind in ("pointer", "scalar") and argument is not None)
        self.steps.append(plan.Launch(self.state.add(made), (programs.expr, 1, 1), arguments))


def weave(frame: Frame, run: Run, blocks: Number | None) -> None:
    """One kernel of all members of a run."""
    from tilejit.backends.cuda.crossing import Weaver
    from tilejit.backends.cuda.structure import inline

    starts = [member.op for member in run.members]
    kernel = frame.kernel(next((op.callee.data for op in starts if isinstance(op, d.CallOp | d.LaunchOp)), "kernels"))
    if blocks is not None:
        kernel.over_blocks(blocks)
    works: list[tuple[Body, Callable[[], object]]] = []
    for member in run.members:
        op = member.op
        assert isinstance(op, d.CallOp | d.LaunchOp)
        function = frame.state.functions[op.callee.data]
        for lane in range(member.lanes):
            body = kernel.again(lane)
            arguments = [body[arg] for arg in op.args]
            works.append((body, lambda body=body, function=function, arguments=arguments: inline(body, function, arguments)))
    Weaver(run).start(works)
    frame.finish(kernel, blocks or host.number(1))


class Making:
    """A kernel under construction, and the body of its programs."""

    def __init__(self, frame: Frame, name: str) -> None:
        self.frame = frame
        self.out = Writer(name)
        self.out.taken.add(name)
        self.body = Body(self.out, self._outside, frame.state.functions, frame.state.failures, frame.state.options, frame.state.interpreted)

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
        return host.take_memory(self.out, found)

    def over_blocks(self, blocks: Number) -> None:
        """Programs are the blocks of pl.spmd."""
        from tilejit.backends.cuda.values import Scalar

        most = blocks.bounds[1] if blocks.bounds else (1 << 31) - 1
        self.body.block_index = Scalar(self.out.once("program", "tl.program_id(0)"), INDEX, (0, max(0, most - 1)))
        self.body.block_count = host.take_number(self.out, blocks, "blocks") if blocks.const is None else index(int(blocks.const))


def _name(memory: Memory) -> str:
    assert isinstance(memory.address, plan.Var)
    return memory.address.name


_HOST_CONSTANTS = {"get_block_idx": 0, "get_block_num": 1, "get_subblock_idx": 0, "available_cluster_count": 8, "available_aiv_count": 16, "task_invalid": -1}


def _group_on_host(frame: Frame, op: Operation) -> None:
    from tilejit.backends.cuda.spread import step_on_host

    step_on_host(frame, op)


def _effect(frame: Frame, op: d.EffectOp) -> None:
    from tilejit.backends.cuda.places import EFFECT_RULES, nothing

    if EFFECT_RULES.get(op.op) is not nothing:
        _group_on_host(frame, op)


_RULES: dict[type[Operation], Callable[[Frame, object], None]] = {
    d.ConstOp: Frame.const,
    d.ApplyOp: Frame.apply,
    d.DimOp: Frame.dim,
    d.CreateOp: Frame.create,
    d.WindowOp: Frame.window,
    d.ViewOp: Frame.view,
    d.StridedOp: Frame.strided,
    d.ReadOp: Frame.read,
    d.CheckOp: Frame.check_op,
    d.ForOp: Frame.for_,
    d.WhileOp: Frame.while_,
    d.IfOp: Frame.if_,
    d.CallOp: Frame.call,
    d.LaunchOp: Frame.launch,
    d.EffectOp: _effect,
}  # type: ignore[assignment]
