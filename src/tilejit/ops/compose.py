"""Composed rows: an op that is a few calls of other ops, so that every target has it as soon as it is declared.

A composed row is a Python function over a `Kit`. The front end runs it to write the calls into the program in the row's place; the
specialiser runs it to learn the types of the results. Values are opaque: the kit calls ops on them and tells their types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, NoReturn, Protocol

from tilejit.dtypes import DType
from tilejit.errors import ArgumentError, DTypeError, InternalError, ShapeError
from tilejit.ops.dtype_rules import NUMBERS, dtype_names
from tilejit.ops.facts import PLAIN, Facts
from tilejit.ops.spec import Call, OpSpec, Spelling, Stub, declarator, declare
from tilejit.types.values import ShapedType

Handle = Any
"""A tensor, tile or scalar of whoever runs the row; ints, floats and flags stand for themselves."""


INLINE_HELP = "an op such as pl.maximum, or a function decorated with @pl.jit.inline"


class Kit(Protocol):
    """What a composed row is written with."""

    title: str
    """The name of the row in messages."""
    level: str
    """"tensor" or "tile": which spelling applies."""

    def __call__(self, name: str, *args: Handle, **keywords: Handle) -> Handle:
        """The value of `pl.<name>(…)`."""
        ...

    def call(self, function: object, *args: Handle) -> tuple[Handle, ...]:
        """The values of a function that the user handed in: an op, or an inline function."""
        ...

    def type(self, value: Handle) -> ShapedType: ...

    def extent(self, value: Handle, axis: int) -> Handle:
        """An extent: an int, or a scalar of the run."""
        ...

    def valid(self, value: Handle, axis: int) -> Handle:
        """A valid extent: an int, or a scalar of the run."""
        ...


def _infer(call: Call) -> NoReturn:
    raise InternalError(f"{call.row.name} is composed of other ops, not applied")


def _reference(**_: object) -> NoReturn:
    raise InternalError("composed ops have no reference of their own: their steps have one")


@declarator
def composed(
    define: Stub, *spellings: Spelling, dtypes: Iterable[DType] = NUMBERS, levels: Iterable[str] | None = None, facts: Facts = PLAIN, name: str | None = None, **attrs: object
) -> OpSpec:
    """Declare a row by the function that composes it: its first parameter is the kit, the others are those of the row."""
    return declare(
        define, family="composed", infer=_infer, reference=_reference, dtypes=frozenset(dtypes), spellings=spellings, levels=levels, name=name, facts=facts, compose=define, attrs=attrs
    )  # fmt: skip


# what composed rows have in common ------------------------------------------------------------------------------------


def rank_of(k: Kit, value: Handle) -> int:
    return k.type(value).rank


def shape_of(k: Kit, value: Handle) -> list[Handle]:
    """The extents, as numbers where the type knows them."""
    return [k.extent(value, axis) for axis in range(rank_of(k, value))]


def product(k: Kit, extents: Sequence[Handle]) -> Handle:
    """The number of elements of a box, computed by the run where it must be."""
    total: Handle = prod(extent for extent in extents if isinstance(extent, int))
    for extent in extents:
        if not isinstance(extent, int):
            total = extent if isinstance(total, int) and total == 1 else k("mul", extent, total)
    return total


def reshaped(k: Kit, value: Handle, extents: Sequence[Handle]) -> Handle:
    """The value in another shape; itself where nothing changes."""
    own = k.type(value).shape
    return value if list(own) == list(extents) else k("reshape", value, list(extents))


def axis_of(k: Kit, axis: object, rank: int, name: str = "axis") -> int:
    """One axis, counted from the front."""
    if not isinstance(axis, int) or isinstance(axis, bool):
        raise ArgumentError(f"{k.title} takes an integer as `{name}`, got {axis!r}", help=f"from {-rank} to {rank - 1}")
    if not -rank <= axis < rank:
        raise ShapeError(f"{k.title}: there is no axis {axis} among {rank}", help=f"from {-rank} to {rank - 1}")
    return axis % rank


def axes_of(k: Kit, axis: object, rank: int) -> tuple[int, ...]:
    """The axes that an `axis` argument means, in order: one, several, or all for None."""
    if axis is None:
        return tuple(range(rank))
    wanted = [axis_of(k, item, rank) for item in (axis if isinstance(axis, tuple | list) else (axis,))]
    if len(set(wanted)) != len(wanted):
        raise ShapeError(f"{k.title}: axis {next(item for item in wanted if wanted.count(item) > 1)} is named twice", help="name each axis once")
    return tuple(sorted(wanted))


def require_values(k: Kit, value: Handle, dtypes: Iterable[DType], name: str = "input") -> ShapedType:
    """The type of an operand; refuses one with other elements."""
    type = k.type(value)
    if type.dtype not in frozenset(dtypes):
        raise DTypeError(f"{k.title} takes {dtype_names(dtypes)} as `{name}`, got {type.dtype}", help=f"convert it first: pl.cast({name}, …)")
    return type


