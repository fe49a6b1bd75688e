"""What kernels do with signals, locks and collectives, for the interpreter of the reference platform."""

from __future__ import annotations

import ctypes
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

from tilejit.errors import PlatformError
from tilejit.runtime.locks import new_lock
from tilejit.runtime.ranks import far, meeting
from tilejit.runtime.ranks.abi import HEADER, LOCK, Comm, Record, State
from tilejit.runtime.ranks.words import array_at, blocked, cell, distance, set_word, wait_facts, word

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

NDArray = npt.NDArray[Any]
_lock = new_lock()
_between: list[Any] = []
"""A file that processes of a job lock; set by engines whose ranks are processes."""


def share_lock(path: str | None) -> None:
    """From now on cells are changed under a lock that other processes see."""
    if path is not None and fcntl is None:
        raise PlatformError("ranks in several processes need locks of files, and this system has none", help="run the ranks as threads of one process")
    _between[:] = [] if path is None else [open(path, "ab")]  # noqa: SIM115 - open as long as the job


class _Held:
    """The lock of this process, and of all of them where there are several."""

    def __enter__(self) -> None:
        _lock.acquire()
        if _between and fcntl is not None:
            fcntl.lockf(_between[0], fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        if _between and fcntl is not None:
            fcntl.lockf(_between[0], fcntl.LOCK_UN)
        _lock.release()


def notify(comm: int, peer: int, address: int, value: int, add: bool) -> None:
    """Change the cell of a peer that lies where the own one at `address` does."""
    if comm in far.spread:
        far.notify(comm, peer, address, value, add)
        return
    with _Held():
        found = ctypes.c_int32.from_address(address + distance(comm, peer))
        found.value = found.value + value if add else value


def lock(comm: int, peer: int) -> bool:
    """Take the lock of a copy; False: the call ends."""
    if comm in far.spread:
        return far.lock(comm, peer)
    base = word(comm, Comm.BASES + peer)
    while not word(word(comm, Comm.STOP), 0):
        with _Held():
            if word(base - HEADER, LOCK // 8) == 0:
                set_word(base - HEADER, LOCK // 8, 1)
                return True
        time.sleep(0)
    return False


def unlock(comm: int, peer: int) -> bool:
    """Let the next one have it."""
    if comm in far.spread:
        far.unlock(comm, peer)
    else:
        set_word(word(comm, Comm.BASES + peer) - HEADER, LOCK // 8, 0)
    return True


def move(comm: int, peer: int, put: bool, view: NDArray, box: Sequence[int]) -> None:
    """Send a box of the view of a peer's copy there, or bring it from there, if that is another machine."""
    if far.is_standin(comm, peer):
        strides = [stride // view.itemsize for stride in view.strides]
        far.move(comm, peer, put, int(view.__array_interface__["data"][0]), view.itemsize, view.shape, strides, box)


def wait(comm: int, address: int, expected: int, at_least: bool, line: int, turns: Callable[[bool], bool] | None = None) -> bool:
    """Block until a cell has got there; False: the call ends. `turns`: several blocks of this rank are under way, and others run first if they can."""

    def there() -> bool:
        if comm in far.spread:
            return far.look(comm, address, expected, at_least)
        value = cell(address)
        return value >= expected if at_least else value == expected

    if turns is not None:
        return _in_turns(comm, wait_facts(comm, address, expected, at_least, line), there, turns)
    return there() or blocked(comm, State.WAITING, wait_facts(comm, address, expected, at_least, line), there)


def _in_turns(comm: int, facts: dict[Record, int], there: Callable[[], bool], turns: Callable[[bool], bool]) -> bool:
    record, stop = word(comm, Comm.RECORD), word(comm, Comm.STOP)
    pause = 0.0
    while not there():
        if word(stop, 0):
            return False
        if turns(False):  # nobody can go on: what this rank waits for is a matter of others
            for slot, value in facts.items():
                set_word(record, slot, value)
            set_word(record, Record.STATE, State.LOOKING)
            set_word(record, Record.ROUNDS, word(record, Record.ROUNDS) + 1)
            time.sleep(pause)
            pause = min(max(2 * pause, 5e-6), 1e-3)
    turns(True)
    if word(record, Record.STATE) == State.LOOKING:
        set_word(record, Record.STATE, State.RUNNING)
        set_word(record, Record.TURN, word(record, Record.TURN) + 1)
    return True


def meet(comm: int, kind: int, op: int, root: int, ring: bool, line: int, arrays: Sequence[NDArray], poison: bool = False) -> bool:
    """A collective on arrays; False: it was given up, and the reason is kept for the launch."""
    return meeting.meet(comm, kind, op, root, ring, line, arrays, poison)


def temporary_lock() -> str:
    """A file to lock."""
    return tempfile.mkstemp(prefix="tilejit-lock-")[1]


__all__ = ["array_at", "cell", "distance", "lock", "meet", "move", "notify", "share_lock", "temporary_lock", "unlock", "wait", "word"]
