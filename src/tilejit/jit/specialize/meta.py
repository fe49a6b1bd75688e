"""What specialisation knows of an argument: shape with its dynamic dims inside, dtype, or the constant a scalar became."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

from tilejit.dtypes import DType
from tilejit.types.values import BufferType


class DynDim(str):
    """A dynamic extent inside a shape. Two are equal if they stand for the same symbol; `literal` is what its author called it."""

    __slots__ = ("literal",)
    literal: str

    def __new__(cls, literal: str, ordinal: int = 0) -> DynDim:
        self = super().__new__(cls, literal if ordinal == 0 else f"{literal}'{ordinal}")
        self.literal = literal
        return self

    def __repr__(self) -> str:
        return f"DynDim({str(self)!r})"


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """A tensor argument: everything about it that the generated code may depend on."""

    shape: tuple[int | DynDim, ...]
    dtype: DType
    contiguous: bool = True

    def type(self, layout: str = "ND") -> BufferType:
        """The type of a parameter that takes it."""
        return BufferType(self.shape, self.dtype, layout)

    def key(self) -> Hashable:
        """Equal for arguments that share a compiled program: dynamic extents are masked."""
        return (tuple(None if isinstance(dim, DynDim) else dim for dim in self.shape), self.dtype.name)


@dataclass(frozen=True, slots=True)
class Constant:
    """A scalar argument that became a literal."""

    value: int | float | bool


@dataclass(frozen=True, slots=True)
class RuntimeScalar:
    """A scalar that stays a parameter."""

    dtype: DType


ArgumentMeta = TensorMeta | Constant | RuntimeScalar


def constant_key(value: object) -> Hashable:
    """`1`, `1.0`, `True`, `0.0` and `-0.0` are five different constants, and a NaN equals itself."""
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else value.hex())
    return (type(value).__name__, value)
