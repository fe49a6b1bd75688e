"""Copies whose two sides run along different axes: blocks of 8 × 8 elements turned in registers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from tilejit.backends.cpu.lanes.registers import load_lanes, store_lanes
from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.llvm.vector import shuffle
from tilejit.backends.cpu.memory.storage import Array, sub_box
from tilejit.backends.cpu.nests.nest import BITS, copy_box
from tilejit.backends.cpu.nests.stream import LINE
from tilejit.dtypes import DType

BLOCK = 8
_PAIRS = ((0, 8, 1, 9, 4, 12, 5, 13), (2, 10, 3, 11, 6, 14, 7, 15))
_QUADS = ((0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15))
_HALVES = ((0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))


def line_of(dtype: DType) -> int:
    """Elements of a cache line, in whole blocks."""
    return max(BLOCK, LINE // dtype.get_byte())


def transpose_into(e: Emitter, target: Array, source: Array, extents: Sequence[Index]) -> None:
    """Copy a box; `source` is a view with swapped axes, so its neighbours lie along another axis than the target's."""
    last = source.rank - 1
    along = next((axis for axis in range(last) if source.strides[axis] == 1 and extents[axis] != 1), None)
    if along is None or source.strides[last] == 1 or target.strides[last] != 1 or not e.module.schedules.transpose(e.name).in_registers:
        copy_box(e, target, source, extents)
        return
    bits = BITS[target.dtype.get_byte()]
    target, source = replace(target, dtype=bits), replace(source, dtype=bits)
    whole = list(extents)
    for axis in (along, last):
        whole[axis] = _floor(e, extents[axis])
    _blocks(e, target, source, whole, along)
    _rest(e, target, source, extents, whole, (along, last))


def _floor(e: Emitter, extent: Index) -> Index:
    return extent // BLOCK * BLOCK if isinstance(extent, int) else e.inst("i64", f"and {extent}, {-BLOCK}")


def _blocks(e: Emitter, target: Array, source: Array, whole: Sequence[Index], along: int) -> None:
    """Block by block, in squares that are as wide as a cache line: of rows that lie far apart, the caches do not hold many until they are wanted again."""
    element, line = target.dtype.llvm, line_of(target.dtype)
    last = target.rank - 1
    with ExitStack() as stack:
        read, write = source.pointer, target.pointer
        left = dict[int, Index]()
        for axis, extent in enumerate(whole):
            step = line if axis in (along, last) else 1
            index = stack.enter_context(e.loop(0, extent, step, name="turn")).iv
            left[axis] = e.min(e.sub(extent, index), step)
            read, write = _moved(e, read, write, index, source.strides[axis], target.strides[axis], element)
        for axis in (last, along) if line > BLOCK else ():
            index = stack.enter_context(e.loop(0, left[axis], BLOCK, name="block")).iv
            read, write = _moved(e, read, write, index, source.strides[axis], target.strides[axis], element)
        rows = [load_lanes(e, target.dtype, e.offset(read, e.mul(i, source.strides[last]), element), BLOCK) for i in range(BLOCK)]
        for i, row in enumerate(turned(e, rows)):
            store_lanes(e, target.dtype, e.offset(write, e.mul(i, target.strides[along]), element), row, BLOCK)


def _moved(e: Emitter, read: Value, write: Value, index: Value, read_stride: Index, write_stride: Index, element: str) -> tuple[Value, Value]:
    return e.offset(read, e.mul(index, read_stride), element), e.offset(write, e.mul(index, write_stride), element)


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
