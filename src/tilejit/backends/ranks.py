"""Failures of statements that concern other ranks: every backend raises the same words."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from tilejit.backends.checks import name_of
from tilejit.errors import UnsupportedFeatureError
from tilejit.ops import facts, table
from tilejit.ops.facts import Effect
from tilejit.ops.spec import OpSpec
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args
from tilejit.tile_ir.program import Program
from tilejit.types.enums import WaitCmp

_SHOWN = 2
"""Indices that fit beside the two numbers of a failed wait."""


def refuse(program: Program, platform: str, hole: Callable[[OpSpec], str | None]) -> None:
    """On a target that cannot reach other ranks: refuse a program that does, where it does."""
    inside = [op for op in program.module.walk() if isinstance(op, d.CommOp | d.PeerOp) or (isinstance(op, d.EffectOp) and facts(op.op).effect is Effect.Ranks)]
    if inside:
        found = next((op for op in inside if not isinstance(op, d.CommOp)), inside[0])
        reason = hole(table()["notify"])
        raise UnsupportedFeatureError(f"this concerns other ranks and does not run on {platform}: {reason}", span=found.span, help="run it with platform='cpu'")


def signal_of(op: d.EffectOp) -> tuple[SSAValue, list[SSAValue]]:
    """The window and the cell of a notify or wait."""
    args = apply_args(op)
    window, cell = args["target" if op.op == "notify" else "signal"], args["offsets"]
    assert isinstance(window, SSAValue) and isinstance(cell, list)
    return window, cell


def peer_failure(op: d.PeerOp | d.EffectOp) -> Failure:
    """A rank that the group does not have; integers: the rank, how many there are."""
    return Failure("bounds", "peer {0} of a group of {1} ranks", op.span, "peers are numbers in the group of the window, from 0 on")


def cell_failure(op: d.EffectOp, axis: int) -> Failure:
    """A cell outside its signal; integers: index, extent."""
    window = name_of(signal_of(op)[0])
    return Failure("bounds", f"{op.op} of a cell outside {_plain(window)} in dim {axis}: index {{0}}, extent {{1}}", op.span, "keep 0 <= index < extent")


def stopped_wait(op: d.EffectOp) -> Failure:
    """A wait that was given up; integers: the indices of the cell that are shown, what is expected, what is there."""
    window, cell = signal_of(op)
    shown = [f"{{{axis}}}" for axis in range(min(len(cell), _SHOWN))] + ["…"] * (len(cell) > _SHOWN)
    sign = "==" if apply_args(op)["cmp"] is WaitCmp.Eq else ">="
    numbers = min(len(cell), _SHOWN)
    text = f"waits for {_plain(name_of(window)).strip('`')}[{', '.join(shown)}] {sign} {{{numbers}}}, it is {{{numbers + 1}}}"
    return Failure("stopped", text, op.span)


def shown_indices(count: int) -> int:
    """How many indices of a cell a message has room for."""
    return min(count, _SHOWN)


def stopped_in(op: d.EffectOp) -> Failure:
    """A statement that others take part in, and that was given up."""
    return Failure("stopped", f"is in {op.op}", op.span)


def _plain(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
