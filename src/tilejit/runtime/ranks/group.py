"""A group of ranks as one of them sees it: who has come how far, what each came for, and where everybody's copies are.

A phase is a counter per rank in the group's block; a rank that has raised its own waits until the others have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy.typing as npt

from tilejit.errors import ShapeError
from tilejit.runtime.ranks import far, words
from tilejit.runtime.ranks.abi import Comm, Record, State

NDArray = npt.NDArray[Any]


class Access(Protocol):
    """How arrays are read and written."""

    def read(self, array: NDArray) -> NDArray:
        """What is in an array, in memory of this process."""
        ...

    def write(self, into: NDArray, value: NDArray) -> None: ...

    def copy(self, into: NDArray, source: NDArray) -> None:
        """Cell after cell, whatever their shapes."""
        ...


class Here:
    """Memory of this process."""

    def read(self, array: NDArray) -> NDArray:
        return array

    def write(self, into: NDArray, value: NDArray) -> None:
        into[...] = value

    def copy(self, into: NDArray, source: NDArray) -> None:
        into[...] = source.reshape(into.shape)


HERE = Here()
DESCRIBED = ("collective", "dtype", "elements", "op", "root", "mode")
"""What ranks compare, in the words after the phase; the line follows. There is room for two: a rank may be in the next one while others still compare."""
WORDS = 16
"""64-bit words of a rank in the block of a group."""
_PHASE, _FIRST = 0, 1


class Group:
    """A group as one of its ranks sees it, through the context of one of its buffers."""

    def __init__(self, comm: int) -> None:
        self.comm = comm
        self.me, self.count = words.word(comm, Comm.RANK), words.word(comm, Comm.COUNT)
        self.record = words.word(comm, Comm.RECORD)
        table = words.word(comm, Comm.GROUP)
        self.blocks = [words.word(table, 1 + q) for q in range(self.count)]
        self.number = words.word(table, 0)
        self.spread = far.spread.get(comm)
        """Where it is on several machines."""
        self.access = accesses.get(comm, HERE)
        """How the memory of windows is read and written."""

    def phase(self) -> bool:
        """Wait until everybody is as far; False: the call ends."""
        own = self.blocks[self.me]
        wanted = words.word(own, _PHASE) + 1
        words.set_word(own, _PHASE, wanted)
        if self.spread is not None:
            self.spread.wire.settle()
            self.spread.engine.publish(own, 8 * WORDS)

        def there() -> bool:
            if self.spread is not None:
                self.spread.engine.progress()
            return all(words.word(block, _PHASE) >= wanted for block in self.blocks)

        came = there() or words.blocked(self.comm, State.MEETING, {Record.GROUP: self.number, Record.PHASE: wanted}, there)
        if came and self.spread is not None:
            self.spread.wire.settle()
        return came

    def describe(self, facts: Sequence[int], line: int) -> None:
        """Say what this rank comes for, before it raises its phase."""
        self._at = _FIRST + (words.word(self.blocks[self.me], _PHASE) % 2) * (len(DESCRIBED) + 1)
        for slot, value in enumerate((*facts, line), self._at):
            words.set_word(self.blocks[self.me], slot, value)

    def described(self, rank: int) -> tuple[tuple[int, ...], int]:
        """What a rank came for, and on which line."""
        found = [words.word(self.blocks[rank], slot) for slot in range(self._at, self._at + len(DESCRIBED) + 1)]
        return tuple(found[:-1]), found[-1]

    def theirs(self, rank: int, like: NDArray) -> NDArray:
        """A rank's copy of what is in the own buffer behind `comm`; `like` lies in that buffer."""
        if rank == self.me:
            return like
        own = int(like.__array_interface__["data"][0])
        return words.array_at(own + self._shift(rank, own), like)

    def around(self) -> Iterator[int]:
        """All ranks, from this one on: nobody is everybody's first."""
        return ((self.me + step) % self.count for step in range(self.count))

    def _shift(self, rank: int, address: int) -> int:
        for comm in buffers_of(self.number, self.record):
            base = words.word(comm, Comm.BASES + self.me)
            if base <= address < base + sizes[comm]:
                return words.word(comm, Comm.BASES + rank) - base
        raise ShapeError("an operand of a collective is in no window of the group")


accesses: dict[int, Access] = {}
"""Of windows that this process cannot look at, by the contexts of the running calls."""
sizes: dict[int, int] = {}
"""Bytes of the buffer behind each context of the running calls."""
_contexts: dict[tuple[int, int], list[int]] = {}
"""Contexts by group and record: the buffers that one rank of a group has."""


def register(group: int, record: int, comm: int, size: int) -> None:
    """Make a buffer known to the collectives of its group."""
    sizes[comm] = size
    _contexts.setdefault((group, record), []).append(comm)


def forget(comms: Sequence[int]) -> None:
    """The end of a call."""
    gone = set(comms)
    for comm in gone:
        sizes.pop(comm, None)
        accesses.pop(comm, None)
    for key in [key for key, held in _contexts.items() if gone & set(held)]:
        del _contexts[key]


def buffers_of(group: int, record: int) -> Sequence[int]:
    """The buffers of a rank in a group."""
    return _contexts.get((group, record), ())
