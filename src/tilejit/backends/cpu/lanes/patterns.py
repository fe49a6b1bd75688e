"""Where the lanes of a vector lie in memory. What does not lie side by side is loaded and stored in whole vectors all the same, and shuffled.

A vector covers one stretch of a row, or several rows that are shorter than it:

    x[::2]                      lanes 0 2 4 6 …             real parts of complex numbers
    rows of 4, of 8 each        lanes 0 1 2 3 8 9 10 11 …   a half of every row
    one number per row of 4     lanes 0 0 0 0 1 1 1 1 …     what is broadcast along the row
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilejit.backends.cpu.lanes.registers import from_memory, load_lanes, store_lanes, to_memory
from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.llvm.vector import gathered, joined, picked, shuffle, splat, typed
from tilejit.dtypes import DType

_MOST_LOADS = 4
"""Of a vector whose lanes lie apart; where it takes more, lanes are loaded one by one."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Lane `l` lies `l // short * outer + l % short * inner` elements behind lane 0."""

    outer: Index
    """From one short row to the next."""
    short: int = 1
    """Lanes of a short row, a power of two."""
    inner: Index = 0
    """From a lane to its neighbour in the same short row."""

    @property
    def is_one_cell(self) -> bool:
        return self.outer == 0 and self.inner == 0

    @property
    def is_straight(self) -> bool:
        """Whether all lanes lie side by side."""
        return self.outer == self.short and (self.short == 1 or self.inner == 1)

    def at(self, e: Emitter, column: Index) -> Index:
        """How far lane 0 of the vector that starts at a column lies behind the start of the row."""
        if self.short == 1:
            return e.mul(column, self.outer)
        if isinstance(column, int):
            return e.mul(column // self.short, self.outer)
        if isinstance(self.outer, int) and isinstance(self.inner, int) and self.outer == self.short * self.inner:
            return e.mul(column, self.inner)
        return e.mul(e.inst("i64", f"lshr exact {column}, {self.short.bit_length() - 1}"), self.outer)

    def lane(self, e: Emitter, lane: int) -> Index:
        return e.add(e.mul(lane // self.short, self.outer), e.mul(lane % self.short, self.inner))

    def offsets(self, lanes: int) -> list[int] | None:
        """How far each lane lies behind lane 0, where that is known now."""
        if not isinstance(self.outer, int) or not isinstance(self.inner, int):
            return None
        return [lane // self.short * self.outer + lane % self.short * self.inner for lane in range(lanes)]


@dataclass(frozen=True, slots=True)
class Near:
    """Arrays whose lanes lie between each other's, at one place of a nest: whole vectors are loaded once for all of them."""

    first: Value
    """Lane 0 of the first of them."""
    shift: int
    """Cells from there to lane 0 of the array that is loaded."""
    last: int
    """Cells from there to lane 0 of the last of them."""
    loaded: dict[int, Value] = field(default_factory=dict[int, Value])
    """Vectors in the form of memory, by the cells in front of them."""


def load_pattern(e: Emitter, dtype: DType, pointer: Value, pattern: Pattern, lanes: int, near: Near | None = None) -> Value:
    """Lanes in register form."""
    if lanes == 1 or pattern.is_straight:
        return load_lanes(e, dtype, pointer, lanes)
    offsets = pattern.offsets(lanes)
    if offsets is not None and not any(offsets):
        return splat(e, load_lanes(e, dtype, pointer, 1), lanes)
    near = near or Near(pointer, 0, 0)
    starts = None if offsets is None else _windows(min(offsets), max(offsets) + near.last, lanes)
    if offsets is None or starts is None:
        return from_memory(e, dtype, _load_apart(e, dtype, pointer, pattern, lanes))
    for start in starts.cells:
        if start not in near.loaded:
            near.loaded[start] = e.load(typed(dtype.llvm, starts.width), e.offset(near.first, start, dtype.llvm), dtype.get_byte())
    picks = [starts.pick(offset + near.shift) for offset in offsets]
    return from_memory(e, dtype, gathered(e, [near.loaded[start] for start in starts.cells], picks))


def load_beside(e: Emitter, dtype: DType, middle: Value, shift: int, lanes: int, width: int, loaded: dict[int, Value]) -> Value:
    """Lanes side by side that begin `shift` cells behind others, from the registers of those as far as they reach. `width`: lanes of a register.

    A load that begins in the middle of a line of the cache reads two of them.
    """

    def register(first: int) -> Value:
        if first not in loaded:
            loaded[first] = e.load(typed(dtype.llvm, width), e.offset(middle, first, dtype.llvm), dtype.get_byte())
        return loaded[first]

    parts: list[Value] = []
    for first in range(shift, shift + lanes, width):
        below, over = first // width * width, first % width
        if over and below >= 0 and below + 2 * width <= lanes:
            parts.append(shuffle(e, register(below), register(below + width), range(over, over + width)))
        else:
            parts.append(register(first))
    return from_memory(e, dtype, joined(e, parts))


@dataclass(frozen=True, slots=True)
class _Windows:
    """Whole vectors that hold a stretch of cells between them, and no other cell."""

    width: int
    cells: tuple[int, ...]
    """The first cell of each."""

    def pick(self, cell: int) -> tuple[int, int]:
        """The first vector that holds a cell, and the lane there."""
        which = next(i for i, first in enumerate(self.cells) if first <= cell < first + self.width)
        return which, cell - self.cells[which]


def _windows(low: int, high: int, lanes: int) -> _Windows | None:
    """Vectors for the cells `low` to `high`; None where it would take too many."""
    span = high - low + 1
    width = min(lanes, 1 << (span.bit_length() - 1))
    if -(-span // width) > _MOST_LOADS:
        return None
    return _Windows(width, tuple(low + min(first, span - width) for first in range(0, span, width)))


def _load_apart(e: Emitter, dtype: DType, pointer: Value, pattern: Pattern, lanes: int) -> Value:
    """Short row by short row, or lane by lane, in the form of memory."""
    rows = pattern.short if pattern.inner in (0, 1) else 1
    width = rows if pattern.inner == 1 else 1
    parts = [
        e.load(typed(dtype.llvm, width), e.offset(pointer, pattern.lane(e, lane), dtype.llvm), dtype.get_byte())
        for lane in range(0, lanes, rows)
    ]  # fmt: skip
    if width == rows:
        return joined(e, parts)
    if len(parts) == 1:
        return splat(e, parts[0], lanes)
    return gathered(e, [joined(e, parts)], [(0, lane // rows) for lane in range(lanes)])


def store_pattern(e: Emitter, dtype: DType, pointer: Value, pattern: Pattern, value: Value, lanes: int) -> None:
    """Store lanes; of several that go to one cell, the last stays."""
    if lanes == 1 or pattern.is_straight:
        store_lanes(e, dtype, pointer, value, lanes)
        return
    stored = to_memory(e, dtype, value)
    width = pattern.short if pattern.inner == 1 else 1
    for lane in range(0, lanes, width):
        part = picked(e, stored, None, range(lane, lane + width)) if width < lanes else stored
        e.store(part, e.offset(pointer, pattern.lane(e, lane), dtype.llvm), dtype.get_byte())


def fill_each_other(pattern: Pattern, shifts: Sequence[int], lanes: int) -> bool:
    """Whether the lanes of arrays that lie so many cells behind the first of them are, together, a stretch without gaps."""
    offsets = pattern.offsets(lanes)
    if offsets is None:
        return False
    cells = sorted(offset + shift for offset in offsets for shift in shifts)
    return cells == list(range(cells[0], cells[0] + len(cells)))


def store_together(e: Emitter, dtype: DType, pointer: Value, pattern: Pattern, values: Sequence[tuple[int, Value]], lanes: int) -> None:
    """Store the lanes of arrays that fill each other's gaps, (shift, lanes) each, as whole vectors."""
    offsets = pattern.offsets(lanes)
    assert offsets is not None
    stored = [to_memory(e, dtype, value) for _, value in values]
    found = {offset + shift: (which, lane) for which, (shift, _) in enumerate(values) for lane, offset in enumerate(offsets)}
    for first in range(min(found), max(found) + 1, lanes):
        part = gathered(e, stored, [found[cell] for cell in range(first, first + lanes)])
        e.store(part, e.offset(pointer, first, dtype.llvm), dtype.get_byte())
