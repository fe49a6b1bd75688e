"""Ctrl-C while compiled code runs: the code asks now and then, Python runs the handlers of signals that came, and what they raise stops the call."""

from __future__ import annotations

import ctypes
import enum
import itertools
import os
import threading
from collections.abc import Generator
from types import GeneratorType
from typing import NoReturn, cast

from tilejit.errors import RankStopped
from tilejit.runtime import interpreter

NOTE = "the kernel was stopped while it ran: its outputs may be partly written"


class Record(enum.IntEnum):
    """What compiled code sees of signals, in 64-bit slots. There is one, of the thread that runs Python's handlers."""

    STOP = 0
    """Not 0: a handler raised something; leave."""
    POLL = 1
    """Address of a C function without arguments that lets handlers run, and sets the word above if one raised; 0 while it is running."""
    THREAD = 2
    """The identity of that thread."""
    SIZE = 8


_record = (ctypes.c_int64 * int(Record.SIZE))()
_raised: list[BaseException] = []


def _listener() -> Generator[int]:
    """Resumed by compiled code. Python runs pending handlers when it resumes a frame, after a call and when it jumps back.

    A function is then not yet inside a `try`; this frame is, and another `try` is around the lines that note the first error."""
    while True:
        try:
            while True:
                try:
                    while True:
                        yield _record[Record.STOP]
                except GeneratorExit:
                    return
                except BaseException as error:
                    _raised[:] = [error]
                    _record[Record.STOP] = 1
        except BaseException as error:
            _raised[:] = [error]
            _record[Record.STOP] = 1


_READY = 16
_listeners: list[GeneratorType[int, None, None]] = []
"""A third signal in the moment in which two are noted ends a listener, and the next question goes to the next of these. All of them have begun:
one that begins with a question is not inside its `try` when Python runs the handlers."""


def _prepare() -> None:
    while sum(listener.gi_frame is not None for listener in _listeners) < _READY:
        listener = cast("GeneratorType[int, None, None]", _listener())
        next(listener)
        _listeners.append(listener)


_prepare()
_listening = itertools.chain.from_iterable(_listeners)
_poll = ctypes.CFUNCTYPE(ctypes.c_int)(_listening.__next__)
ADDRESS = ctypes.addressof(_record)
"""Of the record."""
# Workers look at the record until the process ends, later than the interpreter takes its objects apart.
for _thing in (_record, _poll, _listening):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_thing))


def _listen(thread: int | None) -> None:
    _record[Record.STOP] = 0
    _record[Record.POLL] = ctypes.cast(_poll, ctypes.c_void_p).value or 0
    _record[Record.THREAD] = thread or 0


_listen(threading.main_thread().ident if interpreter.is_main() else None)
if hasattr(os, "register_at_fork") and _record[Record.THREAD]:
    os.register_at_fork(after_in_child=lambda: _listen(threading.get_ident()))


_own = threading.local()


def obey(address: int) -> None:
    """From now on calls by this thread leave when the word at `address` is set, which is followed by zeros; 0: nothing stops them."""
    _own.record = address


def record() -> int:
    """The address of the record for a call by this thread: that of signals if it runs the handlers; 0: nothing stops it."""
    return ADDRESS if _record[Record.THREAD] == threading.get_ident() else getattr(_own, "record", 0)


def stopped(record: int) -> bool:
    """Whether the call of this thread that just returned was told to stop."""
    return bool(ctypes.c_int64.from_address(record).value)


def raise_stopped(record: int = ADDRESS) -> NoReturn:
    """Raise what the handler raised; another record than that of signals is the word of ranks that give up together."""
    if record != ADDRESS:
        raise RankStopped("is in a kernel")
    _prepare()
    _record[Record.STOP] = 0
    error = _raised.pop()
    error.add_note(NOTE)
    raise error
