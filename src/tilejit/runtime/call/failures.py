"""Run-time failures of compiled code: a table row per check, raised as the named error with the values that broke it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from tilejit.errors import (
    DeadlockError,
    InternalError,
    KernelArithmeticError,
    KernelAssertionError,
    OutOfBoundsError,
    RankStopped,
    ResourceError,
    ShapeError,
    Span,
    TilejitError,
)

KINDS: dict[str, type[TilejitError]] = {
    "bounds": OutOfBoundsError,
    "shape": ShapeError,
    "assert": KernelAssertionError,
    "arithmetic": KernelArithmeticError,
    "memory": ResourceError,
    "deadlock": DeadlockError,
    "stopped": RankStopped,
}


@dataclass(frozen=True, slots=True)
class Failure:
    """One check in the code: what to raise when it fails. `text` has `{0}`, `{1}`, … for the reported integers."""

    kind: str
    text: str
    span: Span | None = None
    help: str | None = None
    related: bool = False
    """Whether the first integer is the row of another place that takes part, or -1."""


PRINT = "print"
"""The kind of rows that are no failures: they describe a `pl.print` (printing.py)."""

NOTE = "found while the kernel ran: outputs may be partly written"
"""What every failure at run time says about the outputs."""


def raise_failure(failure: Failure, values: Sequence[int], table: Sequence[Failure] = ()) -> NoReturn:
    """Raise what `failure`, a row of `table`, stands for. Outputs may have been written in part, which the message says."""
    if failure.kind not in KINDS:
        raise InternalError(f"unknown failure kind {failure.kind!r}", span=failure.span)
    error = KINDS[failure.kind](failure.text.format(*values), span=failure.span, help=failure.help, note=NOTE)
    if failure.related and values[0] >= 0:
        other = table[values[0]]
        error.related = ((other.text.format(*values).removeprefix("deadlock: "), other.span),)
    raise error
