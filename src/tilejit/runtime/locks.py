"""Locks that no child of a fork finds held by a thread that only its parent has: ours, and those of Python around an import of ours."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def new_lock() -> threading.RLock:
    """A lock that is free in a child process, unless the thread that forked holds it."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _in_child() -> None:
    for lock in _locks:
        if not lock._is_owned():
            lock._at_fork_reinit()


_IMPORTED = ("tilejit", "xdsl", "llvmlite", "triton", "ml_dtypes")
"""Packages that we import when they are first needed, which may be in any thread."""
_PATIENCE = 10.0
"""Seconds after which a fork goes on all the same: the import may wait for what the thread that forks holds."""


def _imports() -> Iterator[tuple[str, int]]:
    """What is being imported now of these packages, and the threads that do."""
    for name, reference in list(getattr(sys.modules["_frozen_importlib"], "_module_locks", {}).items()):
        owner = getattr(reference(), "owner", None)
        if owner is not None and name.partition(".")[0] in _IMPORTED:
            yield name, owner


def _others_import() -> bool:
    """Whether another thread is importing what the child may need: it would wait for that thread, which it does not have."""
    me = threading.get_ident()
    return any(owner != me for _, owner in _imports())


def imported_here() -> str | None:
    """The module of these packages that this very thread is importing: whoever came in between finds it half made, and would wait for it for ever."""
    me = threading.get_ident()
    return next((name for name, owner in _imports() if owner == me), None)


_across: list[AbstractContextManager[object]] = []
"""Locks of others that whoever forks holds meanwhile."""
_held: list[AbstractContextManager[object]] = []
"""Those of them that the fork under way holds."""


def hold_across_forks(lock: AbstractContextManager[object]) -> None:
    """A lock of somebody else's that protects more than a thread can leave behind in a child: a fork waits until it is free."""
    _across.append(lock)


def _before() -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        while _others_import() and time.monotonic() < until:
            _pause()
        held = list(_across)
        for lock in held:
            lock.__enter__()
        if not _others_import() or time.monotonic() >= until:
            _held[:] = held
            return
        _release(held)  # who had one of them went on to import something


def _after() -> None:
    held, _held[:] = list(_held), []
    _release(held)


def _release(held: list[AbstractContextManager[object]]) -> None:
    for lock in reversed(held):
        lock.__exit__(None, None, None)


def _pause() -> None:
    time.sleep(0.001)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
    os.register_at_fork(after_in_child=_in_child)
