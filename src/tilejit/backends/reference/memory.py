"""Buffers of the reference backend: NumPy arrays, windows and views of them, and the ops that read and write their cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from tilejit import ops
from tilejit.backends import checks
from tilejit.dtypes import TASK_ID, DType
from tilejit.ops.evaluate import ArrayValue, evaluate, poison, whole
from tilejit.ops.sizes import HELP, MAX_BYTES, TOO_LARGE, bytes_of
from tilejit.runtime.call.failures import Failure, raise_failure
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ShapedType

if TYPE_CHECKING:
    from tilejit.backends.reference.shadow import Shadow

NDArray = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor in memory; views of it share the array's memory."""

    array: NDArray
    shadow: Shadow | None = None
    """What the sanitizer knows of its memory."""

    def part(self, array: NDArray) -> Buffer:
        """A view of it."""
        return replace(self, array=array)


Value = Any
"""A run-time value: Buffer, ArrayValue, NumPy scalar, or (an on-core array) NumPy array."""


def scalar(value: Any, dtype: DType) -> Any:
    """`value` as a NumPy scalar of exactly `dtype`; integers wrap."""
    if dtype is TASK_ID:
        return np.int64(value)
    if isinstance(value, int) and not isinstance(value, bool) and dtype.is_integer:
        mask = (1 << max(dtype.bits, 8)) - 1
        value = np.array(value & mask, f"u{max(1, dtype.bits // 8)}").astype(dtype.numpy)
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype.numpy)[()]


class Memory:
    """The ops on buffers, of one running function."""

    values: dict[SSAValue, Value]
    """What its SSA names hold."""

    def integer(self, value: SSAValue) -> int:
        return int(self.values[value])

    def integers(self, values: Iterable[SSAValue]) -> tuple[int, ...]:
        return tuple(int(self.values[value]) for value in values)

    def array(self, value: SSAValue) -> ArrayValue:
        found = self.values[value]
        return whole(found.array) if isinstance(found, Buffer) else found

    def buffer(self, value: SSAValue) -> NDArray:
        return self.handle(value).array

    def handle(self, value: SSAValue) -> Buffer:
        found = self.values[value]
        assert isinstance(found, Buffer), value
        return found

    def create(self, op: d.CreateOp) -> Sequence[Value]:
        type = shaped(op.result)
        shape = self._shape(op, type, op.extents)
        if bytes_of(shape, type.dtype.get_byte()) > MAX_BYTES:
            raise_failure(Failure("memory", TOO_LARGE, op.span, HELP), ())
        init = op.static("init")
        array = poison(shape, type.dtype)
        if init is not None:
            array[...] = scalar(init, type.dtype)
        return [Buffer(array)]

    def _shape(self, op: d.CreateOp | d.ViewOp, type: ShapedType, dynamic: Sequence[SSAValue]) -> tuple[int, ...]:
        extents = iter(self.integers(dynamic))
        shape = tuple(dim if isinstance(dim, int) else next(extents) for dim in type.shape)
        for axis, extent in enumerate(shape):
            if extent < 0:
                raise_failure(checks.create_failure(op, axis), (extent,))
        return shape

    def window(self, op: d.WindowOp) -> Sequence[Value]:
        array = self.buffer(op.buffer)
        offsets, sizes = self.integers(op.offsets), self.integers(op.extents)
        drop = op.drop
        box = self._box(op, array, offsets, sizes, clamp=bool(op.static("clamp")))
        return [self.handle(op.buffer).part(array[tuple(part.start if axis in drop else part for axis, part in enumerate(box))])]

    def view(self, op: d.ViewOp) -> Sequence[Value]:
        array = self.buffer(op.buffer)
        type = shaped(op.result)
        shape = self._shape(op, type, op.extents)
        wanted = type.dtype.numpy
        if array.dtype.itemsize != wanted.itemsize and array.size and not array.flags.c_contiguous:
            raise_failure(checks.view_failure(op), (array.size, math.prod(shape)))
        out = array.reshape(-1).view(wanted) if array.dtype != wanted and array.flags.c_contiguous else array.view(wanted)
        if out.size != math.prod(shape):
            raise_failure(checks.view_failure(op), (out.size, math.prod(shape)))
        reshaped = out.reshape(shape)
        if out.size and not np.may_share_memory(reshaped, array):
            raise_failure(checks.view_failure(op), (out.size, math.prod(shape)))
        return [self.handle(op.buffer).part(reshaped)]

    def strided(self, op: d.StridedOp) -> Sequence[Value]:
        flat = self.buffer(op.buffer)
        cells = flat.view(shaped(op.result).dtype.numpy)
        (start,), shape, strides = self.integers([op.start]), self.integers(op.extents), self.integers(op.strides)
        for axis, extent in enumerate(shape):
            if extent < 0:
                raise_failure(checks.create_failure(op, axis), (extent,))
        reach = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
        low, high = start + sum(min(r, 0) for r in reach), start + sum(max(r, 0) for r in reach)
        if 0 not in shape and (low < 0 or high >= cells.size):
            raise_failure(checks.reach_failure(op), (low, high, cells.size))
        first = cells[min(start, cells.size) :]
        return [self.handle(op.buffer).part(np.lib.stride_tricks.as_strided(first, shape, [stride * cells.itemsize for stride in strides]))]

    def load(self, op: d.LoadOp) -> Sequence[Value]:
        type = shaped(op.result)
        data = poison(_constant(type), type.dtype)
        cells = self.loaded(op)
        data[tuple(slice(0, size) for size in cells.shape)] = cells
        return [ArrayValue(data, cells.shape)]

    def loaded(self, op: d.LoadOp) -> NDArray:
        """The cells in memory that a load reads."""
        array = self.buffer(op.buffer)
        sizes = tuple(min(max(size, 0), extent) for size, extent in zip(self.integers(op.valid), _constant(shaped(op.result)), strict=True))
        return array[(*self._box(op, array, self.integers(op.offsets), sizes, clamp=bool(op.static("clamp"))), ...)]

    def store(self, op: d.StoreOp) -> Sequence[Value]:
        target = self.stored(op)
        cells = self.array(op.value).box.reshape(target.shape)
        with np.errstate(all="ignore"):
            converted = cells.astype(target.dtype)
            target[...] = target + converted if op.static("atomic") else converted
        return []

    def stored(self, op: d.StoreOp) -> NDArray:
        """The cells in memory that a store writes."""
        array, valid = self.buffer(op.buffer), self.array(op.value).valid
        sizes = (*(1 for _ in range(array.ndim - len(valid))), *valid)
        return array[(*self._box(op, array, self.integers(op.offsets), sizes, clamp=False), ...)]

    def _box(self, op: d.LoadOp | d.StoreOp | d.WindowOp, array: NDArray, offsets: Sequence[int], sizes: Sequence[int], clamp: bool) -> tuple[slice, ...]:
        """The cells of a window, checked against the array; a box with an empty side touches nothing, but an index is one of those that there are."""
        empty, indexed = 0 in sizes, op.drop if isinstance(op, d.WindowOp) else ()
        out: list[slice] = []
        for axis, (offset, size, extent) in enumerate(zip(offsets, sizes, array.shape, strict=True)):
            if clamp and offset >= 0:
                size = min(max(extent - offset, 0), max(size, 0))
            elif size < 0 or ((not empty or axis in indexed) and (offset < 0 or offset + size > extent)):
                raise_failure(checks.box_failure(op, axis), (offset, size, extent))
            start = min(max(offset, 0), extent)
            out.append(slice(start, start + size))
        return tuple(out)

    def read(self, op: d.ReadOp) -> Sequence[Value]:
        data = self.array(op.source).data
        return [data[self._cell(op, data, op.indices)]]

    def write(self, op: d.WriteOp) -> Sequence[Value]:
        array = self.buffer(op.buffer)
        array[self._cell(op, array, op.indices)] = self.values[op.value]
        return []

    def atomic(self, op: d.AtomicOp) -> Sequence[Value]:
        array, row = self.buffer(op.buffer), ops.table()[str(op.static("atomic"))]
        cell, value, combine = self._cell(op, array, op.indices), self.values[op.value], row.attrs["combine"]
        old = array[cell]
        if isinstance(combine, str):
            type = d.type_of(op.result)
            (value,) = evaluate(ops.table()[combine], {"lhs": old, "rhs": value}, (type,))
        if op.expected is None or old == self.values[op.expected]:
            array[cell] = value
        return [old]

    def _cell(self, op: d.ReadOp | d.ElementWrite, array: NDArray, indices: Iterable[SSAValue]) -> tuple[int, ...]:
        cell = self.integers(indices)
        for axis, (index, extent) in enumerate(zip(cell, array.shape, strict=True)):
            if not 0 <= index < extent:
                raise_failure(checks.element_failure(op, axis), (index, extent))
        return cell


def shaped(value: SSAValue) -> ShapedType:
    return d.shaped_type(value)


def _constant(type: ShapedType) -> tuple[int, ...]:
    shape = tuple(dim for dim in type.shape if isinstance(dim, int))
    assert len(shape) == len(type.shape), "the shape of a loaded tile is constant"
    return shape
