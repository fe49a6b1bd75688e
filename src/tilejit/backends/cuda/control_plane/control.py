"""Loops and branches of the control plane: what they carry gets a variable each."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tilejit.backends.cuda import plan
from tilejit.backends.cuda.control_plane import host
from tilejit.backends.cuda.control_plane.frame import Frame
from tilejit.backends.cuda.control_plane.host import Axis, Cells, HostValue, Memory, Number, Tasks
from tilejit.dtypes import INDEX
from tilejit.passes.kernels import name_hint
from tilejit.tile_ir import dialect as d


def _carry(frame: Frame, arguments: Sequence[SSAValue], values: Sequence[HostValue], hints: Sequence[str | None]) -> list[str]:
    """Variables for carried values: the arguments stand for them."""
    names: list[str] = []
    for argument, value, hint in zip(arguments, values, hints, strict=True):
        base = hint or "carried"
        if isinstance(value, Tasks):
            frame.values[argument] = value
            continue
        if isinstance(value, Number | Cells):
            names.append(frame.fresh(base))
            carried = plan.Var(names[-1])
            frame.values[argument] = Number(carried, value.dtype) if isinstance(value, Number) else Cells(carried, value.dtype, value.extent)
            continue
        address = frame.fresh(base)
        names.append(address)
        axes: list[Axis] = []
        type = d.shaped_type(argument)
        for i, (axis, extent) in enumerate(zip(value.axes, type.shape, strict=True)):
            parts: list[Number] = []
            for part, own in (("size", axis.extent), ("stride", axis.stride)):
                if part == "size" and isinstance(extent, int):
                    parts.append(host.number(extent))
                    continue
                names.append(frame.fresh(f"{address}_{part}{i}"))
                parts.append(Number(plan.Var(names[-1]), INDEX, host.EXTENT if part == "size" else own.bounds and None))
            axes.append(Axis(parts[0], parts[1]))
        if host.is_contiguous(value) and all(axis.extent.const is not None for axis in axes):
            # Constant shapes without gaps need no variables for their strides; those made above stay unused.
            kept = host.contiguous([axis.extent for axis in axes])
            for axis in axes:
                if isinstance(axis.stride.expr, plan.Var):
                    names.remove(axis.stride.expr.name)
            axes = list(kept)
        frame.values[argument] = Memory(plan.Var(address), tuple(axes), value.dtype, f"any:{address}", base)
    return names


def _flatten(frame: Frame, arguments: Sequence[SSAValue], values: Sequence[HostValue]) -> tuple[plan.Expr, ...]:
    out: list[plan.Expr] = []
    for argument, value in zip(arguments, values, strict=True):
        target = frame.values[argument]
        if isinstance(value, Number | Cells):
            out.append(value.expr)
            continue
        if isinstance(value, Tasks):
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


class Carried:
    """Variables for values that loops and branches hand on; `arguments` stand for them from now on."""

    def __init__(self, frame: Frame, arguments: Sequence[SSAValue], values: Sequence[HostValue]) -> None:
        self.frame, self.arguments = frame, arguments
        self.names = tuple(_carry(frame, arguments, values, [name_hint(argument) for argument in arguments]))
        self.move(values)

    def move(self, values: Sequence[HostValue]) -> None:
        """They have these values now."""
        if self.names:
            self.frame.steps.append(plan.Move(self.names, _flatten(self.frame, self.arguments, values)))


def counted(frame: Frame, op: d.ForOp) -> tuple[str, plan.Expr, plan.Expr, plan.Expr]:
    """The head of a loop: the variable that stands for its number, and where that starts, ends, and how far it goes."""
    lower, upper, step = (frame.number(item) for item in (op.lower, op.upper, op.step))
    number = op.body.block.args[0]
    target = frame.fresh(name_hint(number) or "i")
    known = lower.bounds and upper.bounds and isinstance(step.const, int) and step.const > 0
    bounds = (lower.bounds[0], max(lower.bounds[0], upper.bounds[1] - 1)) if known and lower.bounds and upper.bounds else None
    frame.values[number] = host.variable(target, INDEX, bounds)
    return target, lower.expr, upper.expr, step.expr


def for_(frame: Frame, op: d.ForOp) -> None:
    from tilejit.backends.cuda.grids.loops import loop_as_grid

    if loop_as_grid(frame, op):
        return
    block = op.body.block
    carried = Carried(frame, block.args[1:], [frame.values[init] for init in op.inits])
    head = counted(frame, op)
    frame.steps.append(plan.For(*head, frame.inner(lambda: carried.move(frame.block(block)))))
    for result, argument in zip(op.results, block.args[1:], strict=True):
        frame.values[result] = frame.values[argument]


def while_(frame: Frame, op: d.WhileOp) -> None:
    before, block = op.before.block, op.body.block
    carried = Carried(frame, before.args, [frame.values[init] for init in op.inits])
    found: list[HostValue] = []

    def test() -> None:
        found.extend(frame.block(before))

    first = frame.inner(test)
    condition, *values = found
    assert isinstance(condition, Number)
    for argument, value in zip(block.args, values, strict=True):
        frame.values[argument] = value
    frame.steps.append(plan.While(first, condition.expr, frame.inner(lambda: carried.move(frame.block(block)))))
    for result, value in zip(op.results, values, strict=True):
        frame.values[result] = value


def if_(frame: Frame, op: d.IfOp) -> None:
    condition = frame.number(op.condition)
    if condition.const is not None:
        values = frame.block(op.then.block if condition.const else op.orelse.block)
        for result, value in zip(op.results, values, strict=True):
            frame.values[result] = value
        return
    made: list[Carried] = []
    first = frame.inner(lambda: made.append(Carried(frame, op.results, frame.block(op.then.block))))
    frame.steps.append(plan.If(condition.expr, first, frame.inner(lambda: made[0].move(frame.block(op.orelse.block)))))


def _name(memory: Memory) -> str:
    assert isinstance(memory.address, plan.Var)
    return memory.address.name
