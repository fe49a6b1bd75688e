"""Raising of global memory: pointers, views, slices, and the transfers between slices and tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from tilejit.dtypes import DType
from tilejit.frontend.pto.handles import NotRaisable, Num, Pointer, Region, Slice, View
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of
from tilejit.tile_ir.pto.op import PtoOp
from tilejit.tile_ir.pto.types import PartitionViewType, TensorViewType
from tilejit.types.values import ANY, BufferType, TileType

if TYPE_CHECKING:
    from tilejit.frontend.pto.raiser import Raiser

_ROWS = {"nd": (0, 1, 2, 3), "dn": (3,), "nz": (2, 3)}
"""Which of five dims run along the rows of a tile, by layout; the others run along its columns."""


def dim_of(value: Num) -> int | str:
    return value if isinstance(value, int) else ANY


def dtype_of_element(element: object) -> DType:
    dtype = getattr(element, "dtype", None)
    if not isinstance(dtype, DType) or dtype.bits < 8:
        raise NotRaisable(f"arrays of {element}")
    return dtype


# pointers and views ---------------------------------------------------------------------------------------------------------


def _pointer(self: Raiser, op: PtoOp) -> Pointer:
    found = self.held(op.operand("ptr"))
    if not isinstance(found, Pointer):
        raise NotRaisable("a pointer that is none")
    return found


def _moved(self: Raiser, op: PtoOp) -> Pointer:
    """The pointer of an op, as far on as its offset says."""
    pointer = _pointer(self, op)
    return Pointer(pointer.buffer, self.plus(pointer.offset, self.number(op.operand("offset"))), pointer.element)


def _addptr(self: Raiser, op: PtoOp) -> None:
    self.values[op.results[0]] = _moved(self, op)


def _load_scalar(self: Raiser, op: PtoOp) -> None:
    pointer = _moved(self, op)
    self.values[op.results[0]] = self.as_scalar(self.build.read(pointer.buffer, [self.ssa(pointer.offset)]), op.results[0].type)


def _store_scalar(self: Raiser, op: PtoOp) -> None:
    pointer = _moved(self, op)
    dtype = d.shaped_type(pointer.buffer).dtype
    self.build.write(pointer.buffer, [self.ssa(pointer.offset)], self.cast(self.scalar(op.operand("value")), dtype))


def _declared_shape(op: PtoOp) -> tuple[int | None, ...]:
    """The extents that the type of a view says, None where it leaves them open."""
    type = op.results[0].type
    assert isinstance(type, TensorViewType | PartitionViewType)
    return type.data.shape


def _make_view(self: Raiser, op: PtoOp) -> None:
    """A strided view with the contiguous dim last, where that is known; vectors become matrices of one row."""
    pointer = _pointer(self, op)
    shape, strides = ([self.number(value) for value in op.groups[name]] for name in ("shape", "strides"))
    declared = _declared_shape(op)
    for axis, (dim, size) in enumerate(zip(declared, shape)):
        if dim is not None and not isinstance(size, int):
            self.build.check(size, self.ssa(dim), f"dim {axis} of the view and its type")
            shape[axis] = dim
    layout = op.enum("layout") or _inferred_layout(strides)
    if len(shape) == 1:
        shape, strides = [1, *shape], [0, *strides]
    turned = strides[-1] != 1 and strides[-2] == 1
    if turned:
        shape[-2:], strides[-2:] = shape[:-3:-1], strides[:-3:-1]
    type = BufferType(tuple(dim_of(size) for size in shape), dtype_of_element(pointer.element))
    buffer = self.strided(pointer, shape, strides, type)
    known = tuple(size if isinstance(size, int) else None for size in shape)
    self.values[op.results[0]] = View(buffer, len(declared), turned, layout, pointer, known, tuple(strides))


def _inferred_layout(strides: Sequence[Num]) -> str:
    if len(strides) <= 2 or strides[-1] == 1:
        return "nd"
    if not isinstance(strides[-1], int) or not isinstance(strides[-2], int):
        raise NotRaisable("views of more than two dims whose layout only the run knows")
    return "dn" if strides[-2] == 1 else "nd"


def _view(self: Raiser, op: PtoOp) -> View:
    found = self.held(op.operand("source"))
    if isinstance(found, Slice):
        raise NotRaisable("slices of slices")
    if not isinstance(found, View):
        raise NotRaisable("a view that is none")
    return found


def _view_dim(self: Raiser, op: PtoOp) -> None:
    found, axis = self.held(op.operand("source")), self.number(op.operand("dim"))
    if not isinstance(axis, int):
        raise NotRaisable("a dim that only the run knows")
    if isinstance(found, Slice):
        self.values[op.results[0]] = self.ssa(found.shape[axis])
        return
    view = _view(self, op)
    order = _order(view)
    place = order.index(axis if view.rank > 1 else 1)
    self.values[op.results[0]] = self.build.dim(view.buffer, place)


def _order(view: View) -> list[int]:
    """The dims of the view in the order of its buffer."""
    axes = list(range(max(view.rank, 2)))
    if view.turned:
        axes[-2:] = axes[:-3:-1]
    return axes


def _partition(self: Raiser, op: PtoOp) -> None:
    view = _view(self, op)
    offsets, sizes = ([self.number(value) for value in op.groups[name]] for name in ("offsets", "sizes"))
    declared = _declared_shape(op)
    if len(declared) == len(sizes):
        for axis, (dim, size) in enumerate(zip(declared, sizes)):
            if dim is not None and not isinstance(size, int):
                self.build.check(size, self.ssa(dim), f"dim {axis} of the slice and its type")
                sizes[axis] = dim
    shape = tuple(sizes)
    if view.rank == 1:
        offsets, sizes = [0, *offsets], [1, *sizes]
    rank = len(sizes)
    along_rows = {axis - (5 - rank) for axis in _ROWS[view.layout]} if rank > 2 else {0}
    order = _order(view)
    kept = _kept(order, along_rows, sizes)
    drop = tuple(place for place, axis in enumerate(order) if axis not in kept)
    axes = [axis for axis in order if axis in kept]
    type = BufferType(tuple(dim_of(sizes[axis]) for axis in axes), dtype_of_element(view.base.element))
    places, counts = [offsets[axis] for axis in order], [sizes[axis] for axis in order]
    buffer = self.window(_reached(self, view, places, counts), places, counts, type, drop)
    roles = tuple("r" if axis in along_rows else "c" for axis in axes)
    self.values[op.results[0]] = Slice(buffer, roles, tuple(sizes[axis] for axis in axes), view.base.element, shape, view.layout)


def _reached(self: Raiser, view: View, offsets: Sequence[Num], sizes: Sequence[Num]) -> SSAValue:
    """The view as far as a slice reaches: beyond its extents, what counts is the memory behind it."""
    inside = all(
        isinstance(offset, int) and isinstance(size, int) and extent is not None and offset + size <= extent
        for offset, size, extent in zip(offsets, sizes, view.extents)
    )  # fmt: skip
    if inside:
        return view.buffer
    ends = [_end(self, offset, size) for offset, size in zip(offsets, sizes)]
    type = BufferType(tuple(dim_of(end) for end in ends), dtype_of_element(view.base.element))
    return self.strided(view.base, ends, view.strides, type)


def _end(self: Raiser, offset: Num, size: Num) -> Num:
    """Where a slice ends; what is empty, or begins before its view, ends at 0: nothing is touched, or the window says what is wrong."""
    end = self.plus(offset, size)
    if not isinstance(end, int):
        end = self.apply("maximum", "scalar", lhs=end, rhs=self.build.const(0))
    if isinstance(size, int):
        return end
    empty = self.apply("cmp", "scalar", lhs=size, rhs=self.build.const(0), cmp_type=0)
    return self.apply("where", "scalar", condition=empty, lhs=self.build.const(0), rhs=self.ssa(end))


def _kept(order: Sequence[int], along_rows: set[int], sizes: Sequence[Num]) -> set[int]:
    """Dims of more than one element, and at least one dim for the rows and one for the columns."""
    kept = {axis for axis in order if sizes[axis] != 1}
    for wanted in (True, False):
        side = [axis for axis in sorted(order) if (axis in along_rows) == wanted]
        if side and not kept & set(side):
            kept.add(side[-1])
    return kept


# transfers ------------------------------------------------------------------------------------------------------------------


def slice_of(self: Raiser, op: PtoOp, name: str) -> Slice:
    found = self.held(op.operand(name))
    if not isinstance(found, Slice):
        raise NotRaisable("a slice that is none")
    return found


def _extent(box: Slice, role: str) -> int | None:
    """Rows or columns of the slice as a matrix, if known."""
    sizes = [size for size, own in zip(box.sizes, box.roles) if own == role]
    return math.prod(size for size in sizes if isinstance(size, int)) if all(isinstance(size, int) for size in sizes) else None


def read_slice(self: Raiser, box: Slice, region: Region, shape: tuple[int, int]) -> SSAValue:
    """The first rows and columns of a slice as a tile; other regions with as many cells map in linear order."""
    extents = (_extent(box, "r"), _extent(box, "c"))
    fits = all(have is None or not isinstance(want, int) or want <= have for have, want in zip(extents, region))
    if len(box.roles) == 2 and box.roles[0] != box.roles[1] and fits:
        turned = box.roles == ("c", "r")
        wanted, room = ((region[1], region[0]), (shape[1], shape[0])) if turned else (region, shape)
        loaded = self.load(box.buffer, wanted, room)
        return self.turned(loaded) if turned else loaded
    sizes = box.sizes
    if extents[0] is None or extents[1] is None:
        raise NotRaisable("slices of more than two dims whose sizes only the run knows")
    known = tuple(size for size in sizes if isinstance(size, int))
    zeros = [self.build.const(0)] * len(known)
    dtype = d.shaped_type(box.buffer).dtype
    whole = self.build.load(box.buffer, zeros, [self.build.const(size) for size in known], TileType(known, dtype, known, "Vec"))
    value = self.reshaped(self.permuted(whole, _rows_first(box)), (extents[0], extents[1]))
    return _fitted(self, value, (extents[0], extents[1]), region)


def _fitted(self: Raiser, value: SSAValue, have: tuple[int, int], region: Region) -> SSAValue:
    rows, cols = region
    if isinstance(rows, int) and isinstance(cols, int):
        if rows <= have[0] and cols <= have[1]:
            return self.cut(value, 0, 0, (rows, cols))
        if rows * cols == have[0] * have[1]:
            return self.reshaped(value, (rows, cols))
        raise NotRaisable("a slice of another size than the tile")
    return self.apply("set_validshape", input=value, valid_rows=self.ssa(rows), valid_cols=self.ssa(cols))


def _rows_first(box: Slice) -> list[int]:
    """The dims of the slice with those along the rows in front."""
    axes = range(len(box.roles))
    return [axis for axis in axes if box.roles[axis] == "r"] + [axis for axis in axes if box.roles[axis] == "c"]


def write_slice(self: Raiser, box: Slice, value: SSAValue, atomic: bool) -> None:
    """Store the valid region of a matrix into a slice."""
    type = d.shaped_type(value)
    extents = (_extent(box, "r"), _extent(box, "c"))
    static = type.valid == type.shape
    fits = all(have is None or not isinstance(want, int) or want <= have for have, want in zip(extents, type.valid))
    if len(box.roles) == 2 and box.roles[0] != box.roles[1] and fits:
        turned = box.roles == ("c", "r")
        self.store(self.turned(value) if turned else value, box.buffer, atomic)
        return
    cells = [extent for extent in extents if extent is not None]
    if len(cells) < 2 or not static or math.prod(cells) != math.prod(n for n in type.shape if isinstance(n, int)):
        raise NotRaisable("a part of a slice of more than two dims is written")
    order = _rows_first(box)
    known = [size for size in box.sizes if isinstance(size, int)]
    spread = self.reshaped(value, tuple(known[axis] for axis in order))
    back = [order.index(axis) for axis in range(len(order))]
    self.store(self.permuted(spread, back), box.buffer, atomic)


def constant(value: Num) -> int | None:
    found = value if isinstance(value, int) else constant_of(value)
    return found if isinstance(found, int) else None


OPS = {
    "addptr": _addptr, "load_scalar": _load_scalar, "store_scalar": _store_scalar, "make_tensor_view": _make_view,
    "partition_view": _partition, "get_tensor_view_dim": _view_dim,
}  # fmt: skip
