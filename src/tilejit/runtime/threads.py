"""The thread pool of this process: its code and its state, made when a kernel that shares out work is first called."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from importlib import import_module

from tilejit import config
from tilejit.runtime.abi import Team
from tilejit.runtime.blob import Blob, LoadedBlob

CODE_SOURCE = "tilejit.jit.pieces", "pool_code"
"""Who has the code. Named, not imported: kernels run without a compiler, on one thread if nobody has it."""

_CLOSED = 1 << 30
_ALIGNMENT = 64

_lock = threading.RLock()
_state: list[int] = []
"""The address of the pool's state once it was looked for; 0: there is no pool."""


def thread_count() -> int:
    """Threads a call may use: the setting, torch's count if torch is loaded, else the CPUs this process may use."""
    chosen = config.NUM_THREADS.value
    if chosen:
        return chosen
    if "torch" in sys.modules:
        from tilejit.runtime import torch

        return torch.thread_count()
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def lasting_count() -> int:
    """The number of threads for calls to come without Python: 0 where torch is asked by each of them."""
    if not config.NUM_THREADS.value and "torch" in sys.modules and team() and _content(team())[Team.COUNT]:
        return 0
    return thread_count()


def team() -> int:
    """The address of the pool's state (abi.Team), or 0 where there is no pool."""
    if not _state:
        with _lock:
            if not _state:
                _state.append(_start())
    address = _state[0]
    if address and "torch" in sys.modules and not _content(address)[Team.COUNT]:
        _ask_torch(address)
    return address


def state() -> ctypes.Array[ctypes.c_int64]:
    """The pool's state, to look at; there must be a pool."""
    return _content(team())


def _start() -> int:
    if sys.platform != "linux":
        return 0
    try:
        module, name = CODE_SOURCE
        blob: Blob | None = getattr(import_module(module), name)()
    except ImportError:  # an installation that can only run what others compiled
        blob = None
    if blob is None:
        return 0
    code = LoadedBlob(blob)
    memory = (ctypes.c_int64 * (int(Team.SIZE) + _ALIGNMENT // 8))()
    # Workers sleep in this code and look at this memory until the process ends, later than the interpreter takes its objects apart.
    for thing in (code, memory):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    address = -(-ctypes.addressof(memory) // _ALIGNMENT) * _ALIGNMENT
    state = _content(address)
    state[Team.RUN] = code.address("tj_team_run")
    state[Team.GATE] = _CLOSED
    return address


def _ask_torch(address: int) -> None:
    from tilejit.runtime import torch

    _content(address)[Team.COUNT] = torch.thread_count_function()


def _content(address: int) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * int(Team.SIZE)).from_address(address)


def _forget_workers() -> None:
    """The child of a fork has none of the threads, whatever they were doing; their scratch memory is there to be used again."""
    global _lock
    _lock = threading.RLock()
    if _state and _state[0]:
        state = _content(_state[0])
        kept = int(Team.LOCK)
        for slot in range(kept, int(Team.RECORDS)):
            state[slot] = 0
        state[Team.GATE] = _CLOSED


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)
