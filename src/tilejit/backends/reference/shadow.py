"""What the sanitizer remembers of memory: which cells hold something, and who touched them last."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.lazy import lazy
from tilejit.tile_ir import dialect as d

NDArray = npt.NDArray[Any]
DEFINED, NOTHING = 0, 1
"""States of a cell; every larger number is an origin: the place that first used a cell which holds nothing, directly or not."""
_SHARED = -1
"""The index of several iterations of a loop."""

Path = tuple[tuple[int, int, int], ...]
"""Where an access happens: of every parallel loop around it the run, the iteration, and how many barriers that has passed."""


class Shadow:
    """An allocation, cell by cell. Views of it, also with other shapes, strides and data types, find their cells by their addresses."""

    def __init__(self, root: NDArray, grain: int, state: int, parameter: str | None = None, output: bool = False) -> None:
        low, high = np.lib.array_utils.byte_bounds(root)
        self.parameter = parameter
        """Its name, if it belongs to the caller."""
        self.output = output
        """Whether it is a pure output: the caller's contents mean nothing."""
        self._start, self._grain = low, min(grain, root.itemsize)
        self._state = np.full((high - low) // self._grain, state, np.int32)

    @lazy
    def _writers(self) -> NDArray:
        return np.zeros_like(self._state)

    @lazy
    def _readers(self) -> NDArray:
        return np.zeros_like(self._state)

    def state(self, array: NDArray) -> NDArray:
        """The states of the cells of a view, with one more axis: the grains of a cell."""
        return self._of(self._state, array)

    def writers(self, array: NDArray) -> NDArray:
        """The last access that wrote, by grain."""
        return self._of(self._writers, array)

    def readers(self, array: NDArray) -> NDArray:
        """The last access that read, by grain."""
        return self._of(self._readers, array)

    def _of(self, memory: NDArray, array: NDArray) -> NDArray:
        if not array.size:
            return np.zeros((*array.shape, 1), np.int32)
        address = int(array.__array_interface__["data"][0])
        first, parts = (address - self._start) // self._grain, array.itemsize // self._grain
        strides = [stride // self._grain * memory.itemsize for stride in array.strides]
        return np.ndarray((*array.shape, parts), memory.dtype, memory, first * memory.itemsize, [*strides, memory.itemsize])


@dataclass(eq=False)
class Turn:
    """One iteration of a parallel loop, or one block; the outermost stands for the whole run."""

    parent: Turn | None = None
    loop: int = 0
    index: int = 0
    barriers: int = 0
    watch: Any = None
    """What is found in this run; the outermost has it."""

    @property
    def path(self) -> Path:
        """From the outermost loop inwards."""
        return () if self.parent is None else (*self.parent.path, (self.loop, self.index, self.barriers))

    @property
    def root(self) -> Turn:
        """The whole run."""
        return self if self.parent is None else self.parent.root


loops = itertools.count(1)
"""Numbers of the runs of parallel loops."""


def unordered(one: Path, other: Path) -> bool:
    """Whether two accesses belong to different iterations of one run of a loop, without a barrier between them."""
    for mine, yours in zip(one, other, strict=False):
        if mine != yours:
            return mine[0] == yours[0] and mine[2] == yours[2] and mine[1] != yours[1]
    return False


class Kind(enum.Enum):
    """What somebody does to memory, as a sentence says it."""

    Read = "reads"
    Write = "writes"
    Add = "adds to"


@dataclass(frozen=True, slots=True)
class Access:
    """Somebody who touched memory."""

    path: Path
    op: d.TileOp
    kind: Kind


@dataclass
class Accesses:
    """All accesses of a run, numbered from 1 on."""

    known: list[Access] = field(default_factory=list[Access])
    numbers: dict[Access, int] = field(default_factory=dict[Access, int])

    def __getitem__(self, number: int) -> Access:
        return self.known[number - 1]

    def number(self, access: Access) -> int:
        found = self.numbers.get(access)
        if found is None:
            self.known.append(access)
            found = self.numbers[access] = len(self.known)
        return found

    def note(self, shadow: Shadow, cells: NDArray, own: Access, where: NDArray | None) -> Access | None:
        """Remember an access to the cells of a view (those of `where`); an earlier one that it must not meet, if there is one."""
        writers, readers, touched = shadow.writers(cells), shadow.readers(cells), ... if where is None else where
        others = _found(writers[touched]) if own.kind is Kind.Read else [*_found(writers[touched]), *_found(readers[touched])]
        met = next((self[other] for other in others if self._meets(self[other], own)), None)
        if own.kind is Kind.Read:
            self._read(readers, own, _found(readers))
        else:
            writers[touched] = self.number(own)
        return met

    def _read(self, readers: NDArray, own: Access, earlier: Sequence[int]) -> None:
        """Several readers are remembered as all iterations of the loop that they differ in."""
        before = readers.copy()
        readers[...] = self.number(own)
        for number in earlier:
            other = self[number]
            if unordered(other.path, own.path):
                depth = next(at for at, (mine, yours) in enumerate(zip(own.path, other.path, strict=False)) if mine != yours)
                loop, _, barriers = own.path[depth]
                readers[before == number] = self.number(Access((*own.path[:depth], (loop, _SHARED, barriers)), other.op, Kind.Read))

    def _meets(self, other: Access, own: Access) -> bool:
        return not (other.kind is own.kind is Kind.Add) and unordered(other.path, own.path)


def _found(numbers: NDArray) -> list[int]:
    return [int(number) for number in np.unique(numbers) if number]
