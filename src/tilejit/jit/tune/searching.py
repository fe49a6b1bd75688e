"""Searches that are under way in this thread: one that is asked for within itself would wait for its own lock for ever."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator

from tilejit.errors import TuningError
from tilejit.jit.disk import kernels as disk

_here = threading.local()


class CalledWhileTuned(TuningError):
    """A kernel that is being tuned was called by what its own search runs; no fault of the candidate that is tried just then."""


@contextlib.contextmanager
def searching(name: str, key: disk.Key) -> Generator[None]:
    """Hold the place of the search for `key`; other threads and processes wait until it is free."""
    active: set[str] = _here.__dict__.setdefault("active", set())
    if key.digest in active:
        raise CalledWhileTuned(
            f"kernel '{name}' is called while it is tuned for such a call: by its `reference=`, by its `timer=`, or by a signal handler",
            help=f"call the kernel without tuning there: {name}.kernel(…)",
        )
    try:
        active.add(key.digest)
        with disk.store().building(key.digest):
            yield
    finally:
        active.discard(key.digest)
