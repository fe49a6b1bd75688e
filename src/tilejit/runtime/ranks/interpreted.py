"""What kernels do with signals, locks and collectives, for the interpreter of the reference platform."""

from __future__ import annotations

import ctypes
import fcntl
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from tilejit.runtime.ranks import meeting
from tilejit.runtime.ranks.abi import HEADER, LOCK, Comm, Record, State
from tilejit.runtime.ranks.words import array_at, blocked, cell, distance, set_word, word

NDArray = npt.NDArray[Any]
_lock = threading.RLock()
_between: list[Any] = []
"""A file that processes of a job lock; set by engines whose ranks are processes."""


def share_lock(path: str | None) -> None:
    """From now on cells are changed under a lock that other processes see."""
    _between[:] = [] if path is None else [open(path, "ab")]  # noqa: SIM115 - open as long as the job


class _Held:
    """The lock of this process, and of all of them where there are several."""

    def __enter__(self) -> None:
        _lock.acquire()
        if _between:
            fcntl.lockf(_between[0], fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        if _between:
            fcntl.lockf(_between[0], fcntl.LOCK_UN)
        _lock.release()


def notify(address: int, value: int, add: bool) -> None:
    """Change a cell."""
    with _Held():
        found = ctypes.c_int32.from_address(address)
        found.value = found.value + value if add else value


def lock(base: int) -> None:
    """Take the lock of a copy."""
    while True:
        with _Held():
            if word(base - HEADER, LOCK // 8) == 0:
                set_word(base - HEADER, LOCK // 8, 1)
                return
        time.sleep(0)


def unlock(base: int) -> None:
    set_word(base - HEADER, LOCK // 8, 0)


def wait(comm: int, address: int, expected: int, at_least: bool, line: int) -> bool:
    """Block until a cell has got there; False: the call ends."""

    def there() -> bool:
        value = cell(address)
        return value >= expected if at_least else value == expected

    if there():
        return True
    base = word(comm, Comm.BASES + word(comm, Comm.RANK))
    facts = {Record.CELL: address - base, Record.EXPECTED: expected, Record.CMP: int(at_least), Record.BUFFER: word(comm, Comm.BUFFER), Record.LINE: line}
    return blocked(word(comm, Comm.RECORD), word(comm, Comm.STOP), State.WAITING, facts, there)


def meet(comm: int, kind: int, op: int, root: int, ring: bool, line: int, arrays: Sequence[NDArray], poison: bool = False) -> bool:
    """A collective on arrays; False: it was given up, and the reason is kept for the launch."""
    return meeting.meet(comm, kind, op, root, ring, line, arrays, poison)


def temporary_lock() -> str:
    """A file to lock."""
    return tempfile.mkstemp(prefix="tilejit-lock-")[1]


__all__ = ["array_at", "cell", "distance", "lock", "meet", "notify", "share_lock", "temporary_lock", "unlock", "wait", "word"]
