"""A program as a plan: walks the control plane, makes the host's steps, and a Triton kernel for each launch."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation

from tilejit.backends.base import CompileOptions
from tilejit.backends.cuda import plan
from tilejit.backends.cuda.apart import keep_apart
from tilejit.backends.cuda.control_plane import calls, control, host, memory, ranks
from tilejit.backends.cuda.control_plane.frame import Frame, State
from tilejit.backends.cuda.control_plane.host import Axis, Memory, Number
from tilejit.dtypes import INDEX
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.program import Program
from tilejit.types.values import BufferType, ScalarType


def lower(program: Program, options: CompileOptions, interpreted: bool = False) -> plan.Program:
    """Plan every entry of a program that the CUDA passes prepared."""
    _without_far(program)
    keep_apart(program)
    state = State(program, options, interpreted)
    entries = {name: _entry(state, function) for name, function in program.entries.items()}
    return plan.Program(tuple(state.kernels), entries, tuple(state.failures.rows), state.book.text)


def _without_far(program: Program) -> None:
    """Ranks of a GPU share its memory, which adds to one element after the other: nothing is fetched, sent or locked."""
    from tilejit.backends.cuda.program.ranks import far
    from tilejit.backends.cuda.rules import EFFECTS

    for op in [op for op in program.module.walk() if isinstance(op, d.EffectOp) and EFFECTS.get(op.op) is far]:
        op.detach()
        op.erase()


def _entry(state: State, function: d.FuncOp) -> plan.EntryPlan:
    frame = Frame(state)
    names = function.names
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
        calls.launch_function(frame, function, None, function)
    else:
        frame.block(function.body.block)
    return plan.EntryPlan(function.symbol, tuple(inputs), tuple(frame.steps))


def _group_on_host(frame: Frame, op: Operation) -> None:
    from tilejit.backends.cuda.nests.launches import step_on_host

    step_on_host(frame, op)


def _effect(frame: Frame, op: d.EffectOp) -> None:
    from tilejit.backends.cuda.program.places import nothing
    from tilejit.backends.cuda.rules import EFFECTS

    if ranks.is_meeting(op):
        ranks.EFFECTS[op.op](frame, op)
    elif EFFECTS.get(op.op) is not nothing:
        _group_on_host(frame, op)


RULES: dict[type[Operation], Callable[[Frame, object], None]] = {
    d.ConstOp: memory.const,
    d.ApplyOp: memory.apply,
    d.DimOp: memory.dim,
    d.CreateOp: memory.create,
    d.WindowOp: memory.window,
    d.ViewOp: memory.view,
    d.StridedOp: memory.strided,
    d.ReadOp: memory.read,
    d.CheckOp: memory.check_op,
    d.ForOp: control.for_,
    d.WhileOp: control.while_,
    d.IfOp: control.if_,
    d.CallOp: calls.call,
    d.LaunchOp: calls.launch,
    d.EffectOp: _effect,
    d.CommOp: ranks.comm,
    d.PeerOp: ranks.peer,
}  # type: ignore[assignment]
