"""Other ranks on the control plane: who is in a group, where the copies of peers lie; waits and collectives, which kernels are cut at."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation, SSAValue

from tilejit.backends import ranks
from tilejit.backends.cuda import plan
from tilejit.backends.cuda.control_plane import host
from tilejit.backends.cuda.control_plane.frame import Frame
from tilejit.backends.cuda.control_plane.host import Memory, Number
from tilejit.dtypes import BOOL, INDEX, INT32, INT64
from tilejit.errors import UnsupportedFeatureError
from tilejit.ops.ranks import COLLECTIVES
from tilejit.runtime.call.failures import Failure
from tilejit.runtime.ranks.abi import Comm, dtype_code
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, operand
from tilejit.types.enums import ReduceOp, WaitCmp

_LESS, _AT_LEAST = 2, 5
"""Numbers of comparisons."""


def is_meeting(op: Operation) -> bool:
    """Whether an op waits for other ranks."""
    return isinstance(op, d.EffectOp) and op.op in EFFECTS


def meets(op: Operation) -> bool:
    """Whether an op, or one inside it, waits for other ranks."""
    return any(map(is_meeting, op.walk()))


def _ask(frame: Frame, target: str, what: str, *arguments: plan.Expr) -> plan.Var:
    name = frame.fresh(target)
    frame.steps.append(plan.Ask(name, what, arguments))
    return plan.Var(name)


def comm(frame: Frame, op: d.CommOp) -> None:
    frame.values[op.result] = Number(_ask(frame, "comm", "comm", frame.memory(op.window).address), INT64)


def query(frame: Frame, op: d.ApplyOp, slot: Comm) -> Number:
    """The own number in a group, or how many ranks it has."""
    return _word(frame, op.hint or "n", frame.number(operand(op, "comm")), slot)


def _word(frame: Frame, hint: str, group: Number, slot: Comm) -> Number:
    return Number(_ask(frame, hint, "group_word", group.expr, int(slot)), INT32)


def peer(frame: Frame, op: d.PeerOp) -> None:
    own, group, number = frame.memory(op.buffer), frame.number(op.comm), frame.named(frame.number(op.peer), "peer")
    count = _word(frame, "ranks", group, Comm.COUNT)
    _check(frame, ranks.peer_failure(op), number, count)
    way = _ask(frame, "way", "way_to_peer", group.expr, number.expr)
    address = frame.fresh("theirs")
    frame.steps.append(plan.Compute(address, plan.Apply("add", (own.address, way))))
    frame.values[op.result] = Memory(plan.Var(address), own.axes, own.dtype, own.root, own.name)


def _check(frame: Frame, failure: Failure, at: Number, extent: Number) -> None:
    """A number that is 0 or more and less than another one."""
    row, wide = frame.state.failures.row(failure), Number(at.expr, INDEX)
    for limit, compared in ((host.number(0), _AT_LEAST), (Number(extent.expr, INDEX), _LESS)):
        frame.check(host.apply_row("cmp", [wide, limit], BOOL, {"cmp_type": compared}), row, [at, extent])


def wait(frame: Frame, op: d.EffectOp) -> None:
    """The host looks at the cell, after everything that this rank launched before."""
    window, offsets = ranks.signal_of(op)
    signal, group, indices = frame.memory(window), frame.number(operand(op, "comm")), [frame.number(offset) for offset in offsets]
    expected = frame.named(frame.number(operand(op, "expected")), "expected")
    if frame.state.options.check_bounds:
        for axis, (at, extent) in enumerate(zip(indices, signal.shape, strict=True)):
            if not (at.bounds and extent.bounds and at.bounds[0] >= 0 and at.bounds[1] < extent.bounds[0]):
                _check(frame, ranks.cell_failure(op, axis), at, extent)
    offset = host.total([host.mul(Number(at.expr, INDEX, at.bounds), axis.stride) for at, axis in zip(indices, signal.axes, strict=True)])
    cell = frame.named(Number(host.at(signal, offset, ()).address, INDEX), "cell")
    greater, line = int(apply_args(op)["cmp"] is WaitCmp.Ge), op.span.line if op.span is not None else 0
    came = plan.Var(frame.fresh("came"))
    pauses = frame.block_index.const is None
    frame.steps.append(plan.Ask(came.name, "turn" if pauses else "wait", (group.expr, cell.expr, expected.expr, greater, line), pauses))
    row, shown = frame.state.failures.row(ranks.stopped_wait(op)), indices[: ranks.shown_indices(len(indices))]

    def given_up() -> None:
        now = Number(_ask(frame, "now", "cell", cell.expr), INT32)
        frame.check(Number(False, BOOL), row, [*shown, expected, now])

    frame.steps.append(plan.If(plan.Apply("cmp", (came, 0), "BOOL", (), (("cmp_type", 0),)), frame.inner(given_up), ()))


def collective(frame: Frame, op: d.EffectOp) -> None:
    """The ranks meet on the host, after everything that they launched before."""
    if frame.block_index.const is None:
        raise UnsupportedFeatureError(f"`{op.op}` in a block of pl.spmd: a rank meets others once", span=op.span, help="let it stand outside pl.spmd")
    args, group = apply_args(op), frame.number(operand(op, "comm"))
    reduce, root = args.get("op"), args.get("root")
    words: list[plan.Expr] = [
        COLLECTIVES.index(op.op),
        reduce.value if isinstance(reduce, ReduceOp) else 0,
        root if isinstance(root, int) else 0,
        int(args.get("mode") == "ring"),
        op.span.line if op.span is not None else 0,
    ]
    for name, value in args.items():
        if isinstance(value, SSAValue) and name != "comm":
            array = frame.memory(value)
            words += [array.address, dtype_code(array.dtype), len(array.axes)]
            words += [*(axis.extent.expr for axis in array.axes), *(axis.stride.expr for axis in array.axes)]
    came = _ask(frame, "came", "meet", group.expr, *words)
    row = frame.state.failures.row(ranks.stopped_in(op))
    frame.steps.append(plan.Check(plan.Apply("cmp", (came, 0), "BOOL", (), (("cmp_type", 1),)), row))


EFFECTS: dict[str, Callable[[Frame, d.EffectOp], None]] = {"wait": wait, **dict.fromkeys(COLLECTIVES, collective)}
"""Statements that the host does, as kernels never wait for other ranks."""
