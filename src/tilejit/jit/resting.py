"""The cyclic garbage collector rests while a program is compiled."""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager

_lock = threading.Lock()
_resting = 0
_was_enabled = False


@contextmanager
def no_collections() -> Generator[None]:
    """What runs inside builds one large graph that lives until its end: going through it time and again would find nothing, for a tenth of the time."""
    global _resting, _was_enabled
    with _lock:
        if not _resting:
            _was_enabled = gc.isenabled()
            gc.disable()
        _resting += 1
    try:
        yield
    finally:
        with _lock:
            _resting -= 1
            if not _resting and _was_enabled:
                gc.enable()
