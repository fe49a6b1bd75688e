"""The cyclic garbage collector rests while a program is compiled."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

from tilejit.runtime.locks import new_lock

_lock = new_lock()
_inside: list[int] = []
"""The threads that compile, as often as they do."""
_was_enabled = False


@contextmanager
def no_collections() -> Generator[None]:
    """What runs inside builds one large graph that lives until its end: going through it time and again would find nothing, for a tenth of the time."""
    global _was_enabled
    with _lock:
        if not _inside:
            _was_enabled = gc.isenabled()
            gc.disable()
        _inside.append(threading.get_ident())
    try:
        yield
    finally:
        with _lock:
            _inside.remove(threading.get_ident())
            _end()


def _end() -> None:
    if not _inside and _was_enabled:
        gc.enable()


def _in_child() -> None:
    """Of the threads that compiled when the process forked, the child has at most the one that forked."""
    if _inside:
        _inside[:] = [thread for thread in _inside if thread == threading.get_ident()]
        _end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
