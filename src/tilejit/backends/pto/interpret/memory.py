"""The memories a PTO kernel sees: global memory behind pointers, and byte-addressed local memories in which tiles are typed windows."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.errors import ArgumentError, DTypeError, OutOfBoundsError, ResourceError, ShapeError
from tilejit.runtime.call.autograd import note_write
from tilejit.tile_ir.pto.elements import Element
from tilejit.tile_ir.pto.specs import TileSpec

NDArray = npt.NDArray[Any]
UNWRITTEN = 0xFF
"""What every byte of fresh local memory holds: NaN for floats, -1 for integers."""


def numpy_dtype(element: Element) -> np.dtype[Any]:
    """The NumPy dtype of an element type that can run."""
    if element.dtype is None:
        raise DTypeError(f"no array of {element} can be made here")
    return element.dtype.numpy


# global memory ----------------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Global:
    """A stretch of global memory: an array that was passed, or a bare address whose size nobody knows."""

    address: int
    size: int | None
    name: str
    writable: bool = True
    owner: object = field(default=None, repr=False)

    def elements(self, dtype: np.dtype[Any], low: int, high: int, writing: bool = False) -> NDArray:
        """Elements low … high of the memory, counted from its start in elements of `dtype`."""
        if writing and not self.writable:
            raise ArgumentError(f"the kernel writes `{self.name}`, which is read-only", help="pass a writable array")
        if self.size is not None and (low < 0 or (high + 1) * dtype.itemsize > self.size):
            raise OutOfBoundsError(f"elements {low} to {high} of `{self.name}` are used, but it has {self.size // dtype.itemsize}")
        if self.address == 0:
            raise ArgumentError(f"`{self.name}` is a null pointer")
        if writing:
            note_write(self.owner)
        raw = (ctypes.c_uint8 * ((high - low + 1) * dtype.itemsize)).from_address(self.address + low * dtype.itemsize)
        return np.frombuffer(memoryview(raw), dtype)


@dataclass(frozen=True)
class Pointer:
    """A place in global memory, counted in elements."""

    memory: Global
    offset: int
    element: Element

    def moved(self, elements: int) -> Pointer:
        return Pointer(self.memory, self.offset + elements, self.element)


@dataclass(frozen=True)
class View:
    """A strided tensor, or a slice of one."""

    base: Pointer
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    layout: str | None = None

    def window(self, offsets: tuple[int, ...], sizes: tuple[int, ...], inside: bool) -> View:
        """A slice; `inside`: it stays inside of the view, otherwise what counts beyond its extents is the memory behind it."""
        empty = 0 in sizes  # Nothing is touched, wherever that is.
        for axis, (offset, size, extent) in enumerate(zip(offsets, sizes, self.shape)):
            if size < 0 or (not empty and (offset < 0 or (inside and offset + size > extent))):
                raise OutOfBoundsError(f"dim {axis} of the view has {extent} elements, the slice wants {size} from {offset}")
        if not empty:
            View(self.base, tuple(offset + size for offset, size in zip(offsets, sizes)), self.strides).check_inside()
        return View(self.base.moved(sum(o * s for o, s in zip(offsets, self.strides))), sizes, self.strides, self.layout)

    def check_inside(self) -> None:
        """A view lies inside its array, where the array is known."""
        size, element = self.base.memory.size, self.base.element
        if size is None or 0 in self.shape:
            return
        reach = [(n - 1) * stride for n, stride in zip(self.shape, self.strides)]
        low, high = self.base.offset + sum(min(r, 0) for r in reach), self.base.offset + sum(max(r, 0) for r in reach)
        if low < 0 or (high + 1) * element.bytes > size:
            raise OutOfBoundsError(f"the view reaches from element {low} to {high} of `{self.base.memory.name}`, which has {size // element.bytes}")

    @property
    def effective_layout(self) -> str:
        if self.layout is not None or len(self.shape) < 2:
            return self.layout or "nd"
        return "dn" if self.strides[-1] != 1 and self.strides[-2] == 1 else "nd"

    def lines(self) -> tuple[NDArray, NDArray]:
        """Element offsets of the rows and of the columns of the slice as a matrix; a cell is at their sum."""
        pad = 5 - len(self.shape)
        shape, strides = (1,) * pad + self.shape, (0,) * pad + self.strides
        rows, cols = {"nd": ((0, 1, 2, 3), (4,)), "dn": ((3,), (0, 1, 2, 4)), "nz": ((2, 3), (0, 1, 4))}[self.effective_layout if len(self.shape) > 2 else "nd"]
        return _offsets(shape, strides, rows), _offsets(shape, strides, cols)

    def positions(self, rows: int, cols: int) -> NDArray:
        """Element offsets of the cells of a `rows` × `cols` region; other regions with as many cells map in linear order."""
        row, col = self.lines()
        if rows <= len(row) and cols <= len(col):
            return row[:rows, None] + col[None, :cols]
        if rows * cols == len(row) * len(col):
            return (row[:, None] + col[None, :]).reshape(rows, cols)
        raise ShapeError(f"the slice is {len(row)}x{len(col)}, the valid region of the tile {rows}x{cols}")

    def read(self, rows: int, cols: int, dtype: np.dtype[Any] | None = None) -> NDArray:
        """The region as an array of the slice's own element type, or of the same bytes as `dtype`."""
        if rows == 0 or cols == 0:
            return np.empty((rows, cols), dtype or numpy_dtype(self.base.element))
        cells, where = self._reach(rows, cols, False)
        found = cells[where]
        return found.view(dtype) if dtype is not None else found

    def write(self, values: NDArray, add: bool = False) -> None:
        if values.size == 0:
            return
        cells, where = self._reach(*values.shape, writing=True)
        values = values.astype(cells.dtype) if values.dtype.itemsize != cells.dtype.itemsize or add else values.view(cells.dtype)
        if add:
            np.add.at(cells, where, values)
        else:
            cells[where] = values

    def _reach(self, rows: int, cols: int, writing: bool) -> tuple[NDArray, NDArray]:
        where = self.positions(rows, cols) + self.base.offset
        low, high = int(where.min()), int(where.max())
        return self.base.memory.elements(numpy_dtype(self.base.element), low, high, writing), where - low

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    def flat(self, index: NDArray) -> NDArray:
        """Element offsets of cells counted in row-major order."""
        parts = np.unravel_index(index, self.shape) if self.shape else ()
        return sum((part * stride for part, stride in zip(parts, self.strides)), np.zeros(index.shape, np.int64))


_MAX_LINE = 1 << 26


def _offsets(shape: tuple[int, ...], strides: tuple[int, ...], axes: tuple[int, ...]) -> NDArray:
    """Offsets along some dims, the last of them running fastest."""
    if math.prod(shape[axis] for axis in axes) > _MAX_LINE:
        raise ResourceError(f"a slice of {'x'.join(map(str, shape))} is too large to be moved at once")
    out = np.zeros(1, np.int64)
    for axis in axes:
        out = (out[:, None] + np.arange(shape[axis], dtype=np.int64) * strides[axis]).reshape(-1)
    return out


# local memory -------------------------------------------------------------------------------------------------------------------


class LocalMemory:
    """The private memories of one core, made when they are first used."""

    def __init__(self, capacity: dict[str, int]) -> None:
        self.capacity = capacity
        self._spaces: dict[str, NDArray] = {}

    def at(self, spec: TileSpec, address: int, valid: list[int]) -> Tile:
        """The tile at a byte address."""
        size = self.capacity[spec.loc]
        if address < 0 or address + spec.bytes > size:
            raise OutOfBoundsError(f"a tile of {spec.bytes} bytes at address {address} does not fit into {spec.loc} memory: it has {size} bytes")
        if address % spec.element.bytes:
            raise ShapeError(f"an address that splits an element: {address} is no multiple of {spec.element.bytes}")
        if spec.loc not in self._spaces:
            self._spaces[spec.loc] = np.full(size, UNWRITTEN, np.uint8)
        return Tile(self._spaces[spec.loc], address, spec, spec, (0, 0), valid)


def fresh(spec: TileSpec, valid: list[int]) -> Tile:
    """A tile in memory of its own."""
    return Tile(np.full(spec.bytes, UNWRITTEN, np.uint8), 0, spec, spec, (0, 0), valid)


@dataclass(eq=False)
class Tile:
    """A handle: a typed window of bytes. `root` is the type that lays the bytes out, `origin` where this window of it begins."""

    memory: NDArray
    base: int
    spec: TileSpec
    root: TileSpec
    origin: tuple[int, int]
    valid: list[int]
    bound: bool = True
    """False for a declared tile that nothing was popped into yet."""

    @property
    def dtype(self) -> np.dtype[Any]:
        return numpy_dtype(self.spec.element)

    @property
    def shape(self) -> tuple[int, int]:
        return self.spec.shape

    def _strided(self) -> NDArray | None:
        """All cells of the root as a view, or None when its layout is boxed."""
        root = self.root
        if root.boxed and root.rows % root.box[0] == 0 and root.cols % root.box[1] == 0:
            return None
        dtype = self.dtype
        by_column = root.blayout == "col_major" and not root.boxed
        strides = (dtype.itemsize, root.rows * dtype.itemsize) if by_column else (root.cols * dtype.itemsize, dtype.itemsize)
        return np.ndarray(root.shape, dtype, self.memory, self.base, strides)

    def _boxes(self) -> NDArray:
        """The root as [outer rows, inner rows, outer columns, inner columns]."""
        root, dtype = self.root, self.dtype
        ir, ic = root.box
        inner = (ic, 1) if root.slayout == "row_major" else (1, ir)
        outer = (ir * ic, root.rows * ic) if root.blayout == "col_major" else (root.cols * ir, ir * ic)
        strides = tuple(n * dtype.itemsize for n in (outer[0], inner[0], outer[1], inner[1]))
        return np.ndarray((root.rows // ir, ir, root.cols // ic, ic), dtype, self.memory, self.base, strides)

    def read(self, rows: int | None = None, cols: int | None = None) -> NDArray:
        """The cells of the top left region (all, if not said); may share memory with the tile."""
        rows, cols = self.shape[0] if rows is None else rows, self.shape[1] if cols is None else cols
        if rows > self.shape[0] or cols > self.shape[1]:
            raise ShapeError(f"{rows}x{cols} cells are read from a tile of {self.shape[0]}x{self.shape[1]}")
        cells = self._strided()
        if cells is None:
            cells = self._boxes().reshape(self.root.shape)
        r, c = self.origin
        return cells[r : r + rows, c : c + cols]

    def write(self, values: NDArray, row: int = 0, col: int = 0) -> None:
        """Overwrite a region; other cells keep their bytes."""
        rows, cols = values.shape
        if row < 0 or col < 0 or row + rows > self.shape[0] or col + cols > self.shape[1]:
            raise OutOfBoundsError(f"{rows}x{cols} cells at ({row}, {col}) are written into a tile of {self.shape[0]}x{self.shape[1]}")
        r, c = self.origin[0] + row, self.origin[1] + col
        cells = self._strided()
        if cells is not None:
            cells[r : r + rows, c : c + cols] = values
            return
        boxes = self._boxes()
        whole = boxes.reshape(self.root.shape)
        whole[r : r + rows, c : c + cols] = values
        boxes[...] = whole.reshape(boxes.shape)

    @property
    def box(self) -> NDArray:
        """The valid cells."""
        return self.read(self.valid[0], self.valid[1])

    def reinterpreted(self, spec: TileSpec, valid: list[int]) -> Tile:
        """The same bytes as another type."""
        if self.origin != (0, 0) or self.root.shape != self.spec.shape:
            if not self._contiguous():
                raise ShapeError("a window of a tile whose bytes are not contiguous cannot be reinterpreted")
            start = (self.origin[0] * self.root.cols + self.origin[1]) * self.dtype.itemsize
            return Tile(self.memory, self.base + start, spec, spec, (0, 0), valid)
        return Tile(self.memory, self.base, spec, spec, (0, 0), valid)

    def _contiguous(self) -> bool:
        return not self.root.boxed and self.root.blayout == "row_major" and (self.spec.cols == self.root.cols or self.spec.rows == 1)

    def subset(self, row: int, col: int, spec: TileSpec) -> Tile:
        """A window; the parent's valid region repeats with the period of the window."""
        if row < 0 or col < 0 or row + spec.rows > self.shape[0] or col + spec.cols > self.shape[1]:
            raise OutOfBoundsError(f"a window of {spec.rows}x{spec.cols} at ({row}, {col}) leaves the tile of {self.shape[0]}x{self.shape[1]}")
        valid = [min(v, n) for v, n in zip(self.valid, spec.shape)]
        return Tile(self.memory, self.base, spec, self.root, (self.origin[0] + row, self.origin[1] + col), valid)
