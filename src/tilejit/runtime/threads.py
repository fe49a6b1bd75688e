"""The thread pool of this process: its code and its state, made when a kernel that shares out work is first called."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import Protocol

from tilejit import config
from tilejit.runtime import machine
from tilejit.runtime.artifact.blob import LoadedBlob
from tilejit.runtime.call import abi
from tilejit.runtime.call.abi import Team
from tilejit.runtime.locks import new_lock

_CLOSED = 1 << 30
_ALIGNMENT = 64

_lock = new_lock()
_state: list[int] = []
"""The address of the pool's state once it was started."""


class Code(Protocol):
    """Loaded machine code that can tell where its functions are."""

    def address(self, name: str) -> int: ...


def thread_count() -> int:
    """Threads a call may use: the setting, torch's count if torch is loaded, else the processors that this process may use."""
    chosen = config.NUM_THREADS.value
    if chosen:
        return chosen
    if "torch" in sys.modules:
        from tilejit.runtime import torch

        return torch.thread_count()
    return machine.processors()


def team(code: Code) -> int:
    """The address of the pool's state (abi.Team), started with the code of the kernel that asks; 0: there is no pool for it."""
    if not isinstance(code, LoadedBlob) or not code.has(abi.TEAM_RUN):
        return 0
    if not _state:
        with _lock:
            if not _state:
                _state.append(_start(code.copy()))
    address = _state[0]
    if "torch" in sys.modules and not _content(address)[Team.COUNT]:
        _ask_torch(address)
    return address


def lasting_team(code: Code, num_threads: int | None = None) -> tuple[int, int]:
    """The number of threads and the pool for calls to come without Python; 0 threads where each of them asks torch."""
    count, address = num_threads or thread_count(), team(code)
    if not num_threads and not config.NUM_THREADS.value and "torch" in sys.modules and address and _content(address)[Team.COUNT]:
        count = 0
    return (count, address) if address and count != 1 else (1, 0)


def state() -> ctypes.Array[ctypes.c_int64] | None:
    """The pool's state, to look at; None: it was not started."""
    return _content(_state[0]) if _state else None


def _start(code: LoadedBlob) -> int:
    memory = (ctypes.c_int64 * (int(Team.SIZE) + _ALIGNMENT // 8))()
    # Workers sleep in this code and look at this memory until the process ends, later than the interpreter takes its objects apart.
    for thing in (code, memory):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    address = -(-ctypes.addressof(memory) // _ALIGNMENT) * _ALIGNMENT
    words = _content(address)
    words[Team.RUN], words[Team.YIELD] = code.address(abi.TEAM_RUN), code.address(abi.TEAM_YIELD)
    words[Team.GATE] = _CLOSED
    return address


def _ask_torch(address: int) -> None:
    from tilejit.runtime import torch

    words = _content(address)
    words[Team.COUNT] = torch.thread_count_function()
    parallel, number = torch.openmp_functions()
    owner = threading.main_thread().ident
    if words[Team.COUNT] and parallel and number and owner:
        words[Team.NUMBER], words[Team.OWNER], words[Team.OPENMP] = number, owner, parallel


def _content(address: int) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * int(Team.SIZE)).from_address(address)


def _forget_workers() -> None:
    """The child of a fork has none of the threads, whatever they were doing; their scratch memory is there to be used again."""
    if _state:
        words = _content(_state[0])
        kept = {slot: words[slot] for slot in (Team.RUN, Team.COUNT, Team.YIELD, Team.TICKET)}
        for slot in range(int(Team.RECORDS)):
            words[slot] = kept.get(slot, 0)  # type: ignore[call-overload]
        words[Team.GATE] = _CLOSED


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)
