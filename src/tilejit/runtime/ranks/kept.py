"""What went wrong while a kernel was in one of our functions: kept for the launch, as machine code hands on no exceptions."""

from __future__ import annotations

import threading

_failed = threading.local()


def keep_failure(error: BaseException) -> None:
    """Remember what went wrong in this thread."""
    _failed.error = error


def take_failure() -> BaseException | None:
    """What went wrong in this thread, once."""
    found = getattr(_failed, "error", None)
    _failed.error = None
    return found
