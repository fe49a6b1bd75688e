"""Locks that no child of a fork finds held by a thread that only its parent has."""

from __future__ import annotations

import os
import threading
import weakref
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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
