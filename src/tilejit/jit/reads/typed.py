"""Compile-time numbers of a float type of their own, as Python's containers and functions carry them about."""

from __future__ import annotations

from typing import cast

from tilejit.dtypes import DType


class TypedFloat(float):
    """A number that a declared float type holds. Whoever moves it keeps the type; what Python computes with it is a float of Python."""

    __slots__ = ("dtype",)
    dtype: DType

    def __new__(cls, value: float, dtype: DType) -> TypedFloat:
        made = super().__new__(cls, value)
        made.dtype = dtype
        return made


def untyped(value: object) -> object:
    """A number, or a tuple of some, as Python has it."""
    if type(value) is TypedFloat:
        return float(value)
    if type(value) is tuple and any(map(holds_typed, members := cast("tuple[object, ...]", value))):
        return tuple(map(untyped, members))
    return value


def holds_typed(value: object) -> bool:
    """Whether a value is such a number, or has one among its members."""
    if type(value) is TypedFloat:
        return True
    if type(value) is dict:
        return any(map(holds_typed, cast("dict[object, object]", value).values()))
    return type(value) in (tuple, list) and any(map(holds_typed, cast("tuple[object, ...]", value)))
