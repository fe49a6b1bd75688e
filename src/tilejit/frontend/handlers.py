"""Errors that a handler of signals raised in the middle of a compile: they are the user's, and pass through."""

from __future__ import annotations

import signal
from types import CodeType, FunctionType


def raised_by_handler(error: BaseException) -> bool:
    """Whether a handler of signals, which Python runs between any two instructions of ours, is among the frames that an error came through."""
    codes = {code for number in signal.valid_signals() if (code := _code_of(signal.getsignal(number))) is not None}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _code_of(handler: object) -> CodeType | None:
    """The code that runs when a handler is called: of a function, a method, a partial or an object with `__call__`."""
    handler = getattr(handler, "func", handler)
    handler = getattr(handler, "__func__", handler)
    if not isinstance(handler, FunctionType):
        handler = vars(type(handler)).get("__call__")
    code = getattr(handler, "__code__", None)
    return code if isinstance(code, CodeType) else None
