"""What is said where something that a kernel stands on has changed, or never stays the same."""

from __future__ import annotations

from typing import Any

from tilejit.errors import ParserTypeError, StaleCaptureError, UncacheableValueError, UndefinedVariableError
from tilejit.jit.definition import Definition
from tilejit.jit.reads.questions import MISSING
from tilejit.jit.reads.spelling import shown
from tilejit.kinds import is_a


def changed_answer(entry: Definition, read: str, owner: Definition | None, before: str, raw: object) -> StaleCaptureError:
    """The error for another answer than the kernel `entry` was compiled with; `read` says what was asked, and `owner` who asked."""
    where = "" if owner is entry or owner is None else f" in {_path(owner)}"
    failed = _failure(raw) if is_a(raw, Exception) else None
    what = f"changed from {before} to {shown(raw)}"
    if failed is not None:
        what = f"ends in {failed} now; it was {before}"
    elif raw is MISSING or is_a(raw, Exception):
        what = f"was deleted; it was {before}"
    return StaleCaptureError(f"{read}, which kernel `{_path(entry)}` read{where} when it was compiled, {what}", help=_remedies(entry.name))


def replaced_part_of(kernel: str, function: Any, part: str, old: object) -> StaleCaptureError:
    """The error for a function that has other code or defaults now."""
    what = f"changed from {shown(old)} to {shown(getattr(function, part))}"
    read = f"global `{function.__qualname__}.{part}`"
    return StaleCaptureError(f"{read}, which kernel `{kernel}` read when it was compiled, {what}", help=_remedies(kernel.rpartition(".")[2]))


def unsteady(definition: Definition) -> UncacheableValueError:
    """The error for annotations that never are what they were a moment ago."""
    return UncacheableValueError(
        f"the annotations of `{definition.name}`, or of a helper that it calls, stand for something else each time they are read",
        help="let them read values that stay the same",
    )


def _remedies(name: str) -> str:
    return (
        "pass it as an argument; use @pl.jit(on_drift='recompile') to follow changes, or on_drift='ignore' to keep the compiled value; "
        f"or call {name}.cache_clear()"
    )


def _path(definition: Definition) -> str:
    return f"{definition.function.__module__}.{definition.function.__qualname__}"


def _failure(error: Exception) -> str | None:
    """What a question raised, in words; None: what it asks for is not there."""
    found = error.__cause__ or error
    if isinstance(found, LookupError) or (error.__cause__ is None and isinstance(error, UndefinedVariableError | ParserTypeError)):
        return None
    return f"{type(found).__name__}: {str(found).partition(chr(10))[0]}"
