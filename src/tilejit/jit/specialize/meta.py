"""What specialisation knows of an argument: shape with its dynamic dims inside, dtype, or the constant a scalar became."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from tilejit.dtypes import DType
from tilejit.types.values import BufferType

Member = TypeVar("Member")


class DynDim(str):
    """A dynamic extent inside a shape. Two are equal if they stand for the same symbol; `literal` is what its author called it."""

    __slots__ = ("literal",)
    literal: str

    def __new__(cls, literal: str, ordinal: int = 0) -> Self:
        self = super().__new__(cls, literal if ordinal == 0 else f"{literal}'{ordinal}")
        self.literal = literal
        return self

    def __repr__(self) -> str:
        return f"DynDim({str(self)!r})"


class OwnDim(DynDim):
    """An extent of something that a body makes, whose size only the run knows."""

    __slots__ = ()


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
    """An argument that became part of the program: a number that is a literal now, or another plain value that the body reads while compiling."""

    value: object


@dataclass(frozen=True, slots=True)
class CompileTime:
    """An object that the body asks while compiling: a list, a dict, an instance, a function. What it answers is the key, not which one it is."""


@dataclass(frozen=True, slots=True)
class Bundle(Generic[Member]):
    """A tuple, list, dict or named tuple with tensors in it, taken apart: each member is a parameter of its own, or a compile-time value."""

    kind: str
    """"tuple", "list" or "dict"."""
    names: tuple[str, ...]
    """What each member is called as a parameter."""
    members: tuple[Member, ...]
    keys: tuple[object, ...] = ()
    """Of a dict; the fields of a named tuple."""
    key_class: str = ""
    """The class of keys that are texts or numbers of a class of their own, such as members of an enum: the kernel looks them up by what they say."""


@dataclass(frozen=True, slots=True)
class RuntimeScalar:
    """A scalar that stays a parameter."""

    dtype: DType


ArgumentMeta = TensorMeta | Constant | RuntimeScalar | CompileTime | Bundle["ArgumentMeta"]
