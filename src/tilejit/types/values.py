"""Types of the values in a kernel, free of any IR library: the op table infers them, the IR wraps them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from tilejit.dtypes import BOOL, DType

Dim = int | str
"""An extent: a constant, the name of a dynamic symbol, or ANY (known only at run time)."""
ANY = "?"
"""An extent without a name: two of them may differ."""



@dataclass(frozen=True, slots=True)
class ExtentOperation:
    """An operator on extents that can be computed before a kernel starts: its name in the op table, what it does, its sign."""

    row: str
    compute: Callable[[int, int], int]
    sign: str = ""


_COMPUTED = (
    ExtentOperation("add", operator.add, "+"),
    ExtentOperation("sub", operator.sub, "-"),
    ExtentOperation("mul", operator.mul, "*"),
    ExtentOperation("floordiv", operator.floordiv, "//"),
    ExtentOperation("mod", operator.mod, "%"),
    ExtentOperation("minimum", min),
    ExtentOperation("maximum", max),
)
EXTENT_OPERATIONS = {operation.row: operation for operation in _COMPUTED}

Shape = tuple[Dim, ...]
_Extent = TypeVar("_Extent", int, Dim)
Valid = tuple[Dim, ...]
"""Extents of the valid region, anchored at the origin. ANY: a run-time property of the value."""

TENSOR_SPACE = "DDR"
"""The space of tensor-level values; every other space makes a tile."""


@dataclass(frozen=True, slots=True)
class ScalarType:
    """One number, flag or task id."""

    dtype: DType

    def __str__(self) -> str:
        return f"Scalar[{self.dtype}]"


@dataclass(frozen=True, slots=True)
class BufferType:
    """A tensor in global memory: a handle that stores change for every name of it."""

    shape: Shape
    dtype: DType
    layout: str = "ND"

    def __str__(self) -> str:
        layout = "" if self.layout == "ND" else f", {self.layout}"
        return f"Tensor[{shape_text(self.shape)}, {self.dtype}{layout}]"

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def valid(self) -> Valid:
        return self.shape

    @property
    def level(self) -> str:
        return "tensor"


@dataclass(frozen=True, slots=True)
class TileType:
    """An immutable array value: an on-chip tile, or (space DDR) the result of a tensor-level operator.

    Tiles have constant shapes and may be valid only in a box at the origin; tensor-level values may have symbolic extents.
    """

    shape: Shape
    dtype: DType
    valid: Valid
    space: str = "Vec"

    def __str__(self) -> str:
        kind = "Tensor" if self.space == TENSOR_SPACE else "Tile"
        valid = "" if self.valid == self.shape else f", valid={shape_text(self.valid)}"
        return f"{kind}[{shape_text(self.shape)}, {self.dtype}{valid}]"

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def level(self) -> str:
        """"tensor" or "tile": which spelling of an op applies."""
        return "tensor" if self.space == TENSOR_SPACE else "tile"

    @property
    def fully_valid(self) -> bool:
        return self.valid == self.shape

    def with_valid(self, valid: Valid) -> TileType:
        return replace(self, valid=valid)


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An on-core array of scalars with constant extent."""

    extent: int
    dtype: DType

    def __str__(self) -> str:
        return f"Array[{self.extent}, {self.dtype}]"


ShapedType = BufferType | TileType
ValueType = ScalarType | BufferType | TileType | ArrayType


def shape_text(shape: Shape) -> str:
    """`[32, M, ?]`"""
    return "[" + ", ".join(str(dim) for dim in shape) + "]"


def full_tile(shape: Shape, dtype: DType, space: str = "Vec") -> TileType:
    """A tile type whose every cell is valid."""
    return TileType(shape, dtype, shape, space)


def same_extent(a: Dim, b: Dim) -> bool | None:
    """Whether two extents agree: True, False, or None when only the run can tell."""
    if a == b and a != ANY:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return False
    return None


def broadcast(shapes: Sequence[tuple[_Extent, ...]]) -> tuple[_Extent | int, ...]:
    """The common shape of operands whose type rule already proved that they fit."""
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(next((dim for dim in dims if dim != 1), 1) for dims in zip(*padded, strict=True))


def static_shape(shape: Shape) -> tuple[int, ...] | None:
    """The shape as integers, or None when an extent is known only at run time."""
    known = tuple([d for d in shape if isinstance(d, int)])
    return known if len(known) == len(shape) else None


def takes_number(dtype: DType, number: float | bool) -> bool:
    """Whether a number without a dtype of its own may stand for a scalar of that one."""
    if isinstance(number, bool):
        return dtype is BOOL
    return dtype.is_float or (dtype.is_integer and not isinstance(number, float))


def join(a: ValueType, b: ValueType) -> ValueType | None:
    """The type that holds either value where two paths meet (valid regions and spaces widen), or None."""
    if a == b:
        return a
    if isinstance(a, TileType) and isinstance(b, TileType) and a.shape == b.shape and a.dtype is b.dtype and a.level == b.level:
        valid = tuple(x if x == y else ANY for x, y in zip(a.valid, b.valid, strict=True))
        return TileType(a.shape, a.dtype, valid, a.space if a.space == b.space else "Vec")
    if isinstance(a, BufferType) and isinstance(b, TileType) and b.level == "tensor" and a.dtype is b.dtype:
        return join(TileType(a.shape, a.dtype, a.shape, TENSOR_SPACE), b)
    if isinstance(a, TileType) and isinstance(b, BufferType):
        return join(b, a)
    if isinstance(a, BufferType) and isinstance(b, BufferType) and a.rank == b.rank and a.dtype is b.dtype:
        shape = tuple(x if x == y else ANY for x, y in zip(a.shape, b.shape, strict=True))
        return BufferType(shape, a.dtype, a.layout) if a.layout == b.layout else None
    return None
