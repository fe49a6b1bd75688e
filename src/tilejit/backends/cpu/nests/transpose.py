"""Copies whose two sides run along different axes: blocks of 8 × 8 elements turned in registers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from tilejit.backends.cpu.lanes.registers import load_lanes, store_lanes
from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.llvm.vector import binary, joined, shuffle
from tilejit.backends.cpu.memory.storage import Array, sub_box
from tilejit.backends.cpu.nests.nest import BITS, copy_box
from tilejit.backends.cpu.nests.stream import LINE, finish
from tilejit.backends.cpu.products.kernels import ask_beyond
from tilejit.backends.cpu.schedule import TransposeSchedule
from tilejit.dtypes import DType

BLOCK = 8
_PAIRS = ((0, 8, 1, 9, 4, 12, 5, 13), (2, 10, 3, 11, 6, 14, 7, 15))
_QUADS = ((0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15))
_HALVES = ((0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))
_QUARTER = 4
"""Elements of 32 bits in a quarter of a line: the longest registers are shuffled fastest within their quarters."""
_MIXED = tuple(
    tuple(quarter * _QUARTER + lane + second * _QUARTER**2 for quarter in range(_QUARTER) for lane in half for second in range(2)) for half in ((0, 1), (2, 3))
)
"""The first and the last two elements of each quarter of two registers, in turns."""
_LINES = 4
"""Cache lines of a row of the source that are read together: rows may lie on a page of memory each."""


def line_of(dtype: DType) -> int:
    """Elements of a cache line, in whole blocks."""
    return max(BLOCK, LINE // dtype.get_byte())


def rows_together(dtype: DType) -> int:
    """Rows of the target that are written together."""
    return line_of(dtype) * (_LINES if _in_lines(dtype) else 1)


def _in_lines(dtype: DType) -> bool:
    """Whether lines are written at once: of short elements they are too many blocks side by side."""
    return line_of(dtype) <= 2 * BLOCK


def transpose_into(e: Emitter, target: Array, source: Array, extents: Sequence[Index], chosen: TransposeSchedule | None = None, whole_bytes: int = 0) -> None:
    """Copy a box; `source` is a view with swapped axes, so its neighbours lie along another axis than the target's.

    It may be a part of something, as `chosen` for that, and of so many bytes, if they are known."""
    last = source.rank - 1
    along = next((axis for axis in range(last) if source.strides[axis] == 1 and extents[axis] != 1), None)
    schedule = chosen or e.module.schedules.transpose(e.name)
    if along is None or source.strides[last] == 1 or target.strides[last] != 1 or not schedule.in_registers:
        copy_box(e, target, source, extents)
        return
    bits = BITS[target.dtype.get_byte()]
    target, source = replace(target, dtype=bits), replace(source, dtype=bits)
    streams = 0 < schedule.stream_bytes <= whole_bytes and _in_lines(bits)
    if streams:
        target, source, extents = _from_a_line_on(e, target, source, extents)
    whole = list(extents)
    for axis in (along, last):
        whole[axis] = _floor(e, extents[axis])
    _Blocks(e, target, source, whole, along, streams, asks=0 < schedule.prefetch_bytes <= whole_bytes).write()
    _rest(e, target, source, extents, whole, (along, last))
    if streams:
        finish(e)


def _floor(e: Emitter, extent: Index) -> Index:
    return extent // BLOCK * BLOCK if isinstance(extent, int) else e.inst("i64", f"and {extent}, {-BLOCK}")


def _from_a_line_on(e: Emitter, target: Array, source: Array, extents: Sequence[Index]) -> tuple[Array, Array, Sequence[Index]]:
    """Copy the columns in front of the first cache line of the target, and say what is left."""
    address = e.inst("i64", f"ptrtoint {target.pointer} to i64")
    over = e.inst("i64", f"and {e.i64(e.sub(0, address))}, {LINE - 1}")
    head = e.min(e.inst("i64", f"lshr {over}, {target.dtype.get_byte().bit_length() - 1}"), extents[-1])
    copy_box(e, target, source, [*extents[:-1], head])
    offsets, sizes = [0] * (target.rank - 1) + [head], [*extents[:-1], e.sub(extents[-1], head)]
    return sub_box(e, target, offsets, sizes), sub_box(e, source, offsets, sizes), sizes


_Places = tuple[Value, Value]
"""Where to read and where to write."""


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Code for a box of whole blocks, in squares as wide as a cache line, which is written at once; what is left of them at the edges goes block by block."""

    e: Emitter
    target: Array
    source: Array
    whole: Sequence[Index]
    along: int
    streams: bool
    """Store lines past the caches."""
    asks: bool
    """Ask for what is read next: the processor itself sees no order in rows that lie far apart."""

    def write(self) -> None:
        e, line, last = self.e, line_of(self.target.dtype), self.target.rank - 1
        sides = {self.along: rows_together(self.target.dtype), last: line}
        squares = _in_lines(self.target.dtype) and all(not isinstance(extent, int) or extent >= line for extent in (self.whole[axis] for axis in sides))
        left = dict[int, Index]()
        with ExitStack() as stack:
            at = self.source.pointer, self.target.pointer
            for axis, extent in enumerate(self.whole):
                step = sides.get(axis, 1)
                at, left[axis] = self._step(stack, at, axis, extent, step)
            if not squares:
                self._by_blocks(at, left)
                return
            at, left[self.along] = self._step(stack, at, self.along, left[self.along], line)
            full = binary(e, "and", e.icmp("eq", left[self.along], line), e.icmp("eq", left[last], line))
            stem = e.fresh("square")
            e.cbr(full, f"{stem}.full", f"{stem}.part")
            for label, write in (("full", lambda: self._square(at)), ("part", lambda: self._by_blocks(at, left))):
                e.place(f"{stem}.{label}")
                write()
                e.br(f"{stem}.done")
            e.place(f"{stem}.done")

    def _step(self, stack: ExitStack, at: _Places, axis: int, extent: Index, step: int) -> tuple[_Places, Index]:
        """A loop over an axis: the places in its body, and what is left there, up to a step."""
        e = self.e
        index = stack.enter_context(e.loop(0, extent, step, name="turn")).iv
        return self._moved(at, axis, index), e.min(e.sub(extent, index), step)

    def _moved(self, at: _Places, axis: int, index: Index) -> _Places:
        e, element = self.e, self.target.dtype.llvm
        read, write = (e.offset(place, e.mul(index, array.strides[axis]), element) for place, array in zip(at, (self.source, self.target), strict=True))
        return read, write

    def _by_blocks(self, at: _Places, left: dict[int, Index]) -> None:
        last = self.target.rank - 1
        with ExitStack() as stack:
            for axis in (last, self.along):
                at, _ = self._step(stack, at, axis, left[axis], BLOCK)
            for i, row in enumerate(self._turned(at[0])):
                store_lanes(self.e, self.target.dtype, self._moved(at, self.along, i)[1], row, BLOCK)

    def _square(self, at: _Places) -> None:
        """Lines of the target, some at a time, of blocks side by side."""
        e, dtype, last = self.e, self.target.dtype, self.target.rank - 1
        line = line_of(dtype)
        if self.asks:
            for column in range(line):
                ask_beyond(e, at[0], dtype.llvm, e.mul(line + column, self.source.strides[last]), near=2)
        step = _QUARTER if line == _QUARTER * _QUARTER else BLOCK
        for first in range(0, line, step):
            top = self._moved(at, self.along, first)
            values = self._quarters(top[0]) if step == _QUARTER else self._turned(top[0])
            lines = [(self._moved(top, self.along, i)[1], value) for i, value in enumerate(values)]
            if not self.streams:
                self._store(lines)
                continue
            stem = e.fresh("lines")
            e.cbr(self._aligned(top[1]), f"{stem}.stream", f"{stem}.store")
            e.place(f"{stem}.stream")
            for place, value in lines:
                e.stream(value, place, LINE)
            e.br(f"{stem}.done")
            e.place(f"{stem}.store")
            self._store(lines)
            e.br(f"{stem}.done")
            e.place(f"{stem}.done")

    def _store(self, lines: Sequence[tuple[Value, Value]]) -> None:
        for place, value in lines:
            self.e.store(value, place, self.target.dtype.get_byte())

    def _aligned(self, place: Value) -> Value:
        """Whether lines of the target are cache lines."""
        e = self.e
        address = e.inst("i64", f"ptrtoint {place} to i64")
        bits = e.inst("i64", f"or {address}, {e.i64(e.mul(self.target.strides[self.along], self.target.dtype.get_byte())).text}")
        return e.icmp("eq", e.inst("i64", f"and {bits}, {LINE - 1}"), 0)

    def _quarters(self, read: Value) -> list[Value]:
        """Four columns of a square as lines: what lies four rows apart is loaded into one register, and the squares in its quarters are turned side by side."""
        e, dtype, stride = self.e, self.target.dtype, self.source.strides[-1]
        rows = [
            joined(e, [load_lanes(e, dtype, e.offset(read, e.mul(quarter * _QUARTER + i, stride), dtype.llvm), _QUARTER) for quarter in range(_QUARTER)])
            for i in range(_QUARTER)
        ]
        pairs = [shuffle(e, rows[i], rows[i + 2], lanes) for i in range(2) for lanes in _MIXED]
        return [shuffle(e, pairs[i], pairs[i + 2], lanes) for i in range(2) for lanes in _MIXED]

    def _turned(self, read: Value) -> list[Value]:
        """The block at a place, its columns as rows."""
        e, dtype = self.e, self.target.dtype
        stride = self.source.strides[-1]
        return turned(e, [load_lanes(e, dtype, e.offset(read, e.mul(i, stride), dtype.llvm), BLOCK) for i in range(BLOCK)])


def turned(e: Emitter, rows: Sequence[Value]) -> list[Value]:
    """The columns of an 8 × 8 block."""
    pairs = [shuffle(e, rows[2 * i], rows[2 * i + 1], lanes) for i in range(4) for lanes in _PAIRS]
    quads = [shuffle(e, pairs[4 * i + j], pairs[4 * i + j + 2], lanes) for i in range(2) for j in range(2) for lanes in _QUADS]
    return [shuffle(e, quads[i], quads[i + 4], lanes) for lanes in _HALVES for i in range(4)]


def _rest(e: Emitter, target: Array, source: Array, extents: Sequence[Index], whole: Sequence[Index], axes: tuple[int, int]) -> None:
    """What is left beside and below the blocks."""
    inside = list(extents)
    for axis in axes:
        if whole[axis] != extents[axis]:
            offsets: list[Index] = [0] * target.rank
            offsets[axis] = whole[axis]
            sizes = list(inside)
            sizes[axis] = e.sub(extents[axis], whole[axis])
            copy_box(e, sub_box(e, target, offsets, sizes), sub_box(e, source, offsets, sizes), sizes)
        inside[axis] = whole[axis]
