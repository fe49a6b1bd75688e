"""Windows whose group is on several machines: what kernels ask of the engine for them.

A peer's copy that is on another machine has a stand-in in this process; kernels read and write that, and say before a read and after a write which box
they mean. Cells and locks of such a window are reached through MPI by everybody, the own rank included: its updates are not atomic with those of CPUs.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tilejit.runtime.ranks import words
from tilejit.runtime.ranks.abi import FAR_WORDS, HEADER, LATER, LOCK, Comm, Far, State
from tilejit.runtime.ranks.engine import Engine
from tilejit.runtime.ranks.kept import keep_failure
from tilejit.runtime.ranks.wire import Wire


@dataclass(frozen=True)
class Spread:
    """A buffer whose group is on several machines, as one rank sees it."""

    engine: Engine
    members: tuple[int, ...]
    """The ranks of the group."""
    offsets: tuple[int, ...]
    """Where each one's copy lies in the memory that its process shows."""

    @property
    def wire(self) -> Wire:
        assert self.engine.wire is not None
        return self.engine.wire


spread: dict[int, Spread] = {}
"""By the address of the context."""


def _own_base(comm: int) -> int:
    return words.word(comm, Comm.BASES + words.word(comm, Comm.RANK))


def is_standin(comm: int, peer: int) -> bool:
    """Whether a peer's copy is on another machine."""
    return bool(words.word(comm, Comm.BASES + words.word(comm, Comm.COUNT) + peer))


def move(comm: int, peer: int, put: bool, address: int, width: int, shape: Sequence[int], strides: Sequence[int], box: Sequence[int]) -> None:
    """Send a box of the stand-in at `address` to the peer, or bring it from there; what is outside of the view stays outside."""
    buffer = spread[comm]
    lows = [max(offset, 0) for offset in box[: len(shape)]]
    sizes = [min(offset + size, extent) - low for offset, size, extent, low in zip(box[: len(shape)], box[len(shape) :], shape, lows, strict=True)]
    if all(size > 0 for size in sizes):
        first = address + width * sum(low * stride for low, stride in zip(lows, strides, strict=True))
        offset = buffer.offsets[peer] + first - words.word(comm, Comm.BASES + peer)
        buffer.wire.move(put, buffer.members[peer], offset, first, sizes, strides, width)


def notify(comm: int, peer: int, address: int, value: int, add: bool) -> None:
    """Change the cell of a peer that lies where the own one at `address` does."""
    buffer = spread[comm]
    buffer.wire.change(buffer.members[peer], buffer.offsets[peer] + address - _own_base(comm), value, add)


def wait(comm: int, address: int, expected: int, at_least: bool, line: int) -> bool:
    """Block until the own cell has got there; False: the call ends."""

    def there() -> bool:
        return look(comm, address, expected, at_least)

    return there() or words.blocked(comm, State.WAITING, words.wait_facts(comm, address, expected, at_least, line), there)


def look(comm: int, address: int, expected: int, at_least: bool) -> bool:
    """Whether the own cell has got there."""
    buffer = spread[comm]
    value = buffer.wire.look(buffer.offsets[words.word(comm, Comm.RANK)] + address - _own_base(comm))
    return value >= expected if at_least else value == expected


def lock(comm: int, peer: int) -> bool:
    """Take the lock of a copy; False: the call ends."""
    buffer = spread[comm]
    while not buffer.wire.swap(buffer.members[peer], buffer.offsets[peer] + LOCK - HEADER, 0, 1):
        if words.word(words.word(comm, Comm.STOP), 0):
            return False
        time.sleep(0)
    return True


def unlock(comm: int, peer: int) -> None:
    """Let the next one have it."""
    buffer = spread[comm]
    freed = buffer.wire.swap(buffer.members[peer], buffer.offsets[peer] + LOCK - HEADER, 1, 0)
    assert freed, "a lock that nobody held"


def _from_kernel(comm: int, kind: int, peer: int, block: int) -> int:
    """What kernels call; 0: done."""
    try:
        if kind == Far.NOTIFY:
            address, value, add = (words.word(block, slot) for slot in range(3))
            notify(comm, peer, address, value, bool(add))
        elif kind == Far.WAIT:
            address, expected, at_least, line = (words.word(block, slot) for slot in range(4))
            return 0 if wait(comm, address, expected, bool(at_least), line) else 1
        elif kind == Far.LOOK:
            address, expected, at_least = (words.word(block, slot) for slot in range(3))
            return 0 if look(comm, address, expected, bool(at_least)) else LATER
        elif kind == Far.LOCK:
            return 0 if lock(comm, peer) else 1
        elif kind == Far.UNLOCK:
            unlock(comm, peer)
        else:
            address, width, rank = (words.word(block, slot) for slot in range(FAR_WORDS))
            lists = [words.word(block, FAR_WORDS + slot) for slot in range(4 * rank)]
            move(comm, peer, kind == Far.FLUSH, address, width, lists[:rank], lists[rank : 2 * rank], lists[2 * rank :])
    except BaseException as error:
        keep_failure(error)
        return 1
    return 0


_FROM_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(_from_kernel)
FAR = ctypes.cast(_FROM_KERNEL, ctypes.c_void_p).value or 0
"""Address of the function that kernels call."""
__all__ = ["FAR", "Spread", "is_standin", "lock", "move", "notify", "spread", "unlock", "wait"]
