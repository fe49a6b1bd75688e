"""Rows that run along an axis: running sums, products and extremes.

FP16 and BF16 accumulate in FP32 and are rounded when they are written. Elements are taken in order; fast_math permits another order of sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilejit.errors import ShapeError
from tilejit.ops import numbers
from tilejit.ops.compose import Handle, Kit, axis_of, composed, rank_of, shape_of
from tilejit.ops.dtype_rules import NUMBERS, require
from tilejit.ops.elementwise import in_register, value_dtype
from tilejit.ops.evaluate import ArrayValue, placed
from tilejit.ops.facts import Facts
from tilejit.ops.movement import STORABLE
from tilejit.ops.shape_rules import result_type
from tilejit.ops.spec import Call, OpSpec, Static, Stub, Value, declarator, declare, spell
from tilejit.types.values import BufferType, TileType, ValueType, shape_text

_ACCUMULATE: dict[str, Callable[..., Any]] = {
    "sum": np.add.accumulate,
    "prod": np.multiply.accumulate,
    "max": np.maximum.accumulate,
    "min": np.minimum.accumulate,
}


def scanned_axis(axis: object, rank: int) -> int:
    assert isinstance(axis, int)
    return axis % rank


def _infer(call: Call) -> tuple[ValueType, ...]:
    input, axis = call.shaped("input"), call.arg("axis")
    require(call, "input", input.dtype, call.row.dtypes)
    if not isinstance(axis, int) or isinstance(axis, bool) or not -input.rank <= axis < input.rank:
        raise ShapeError(f"{call.row.name} takes an axis of {shape_text(input.shape)}, got {axis!r}", help=f"from {-input.rank} to {input.rank - 1}")
    return (result_type(call, input.shape, input.dtype, input.valid),)


def _reference(combine: str) -> Callable[..., Any]:
    def evaluate(results: tuple[TileType, ...], input: ArrayValue, axis: int) -> ArrayValue:
        cells = in_register(input.box, value_dtype(input.data))
        dtype = {"dtype": cells.dtype} if combine in ("sum", "prod") else {}
        out = _ACCUMULATE[combine](cells, axis=axis, **dtype)
        return placed(numbers.convert(out, results[0].dtype), input.data.shape, results[0].dtype)

    return evaluate


_SCAN = "(input, axis=-1)"


@declarator
def scan(stub: Stub, combine: str) -> OpSpec:
    """Declare a running reduction."""
    return declare(
        stub,
        family="scan",
        infer=_infer,
        reference=_reference(combine),
        dtypes=NUMBERS,
        spellings=spell(stub.__name__, pl=_SCAN, tensor=_SCAN, tile="(tile, axis=-1)"),
        attrs={"combine": combine},
        facts=Facts(exact=combine in ("max", "min")),
    )


@scan("sum")
def cumsum(input: Value, axis: Static = -1) -> object:
    """The sum of all elements along the axis up to each of them; integers wrap."""


@scan("prod")
def cumprod(input: Value, axis: Static = -1) -> object:
    """The product of all elements along the axis up to each of them; integers wrap."""


@scan("max")
def cummax(input: Value, axis: Static = -1) -> object:
    """The largest of all elements along the axis up to each of them; NaN wins."""


@scan("min")
def cummin(input: Value, axis: Static = -1) -> object:
    """The smallest of all elements along the axis up to each of them; NaN wins."""


# any function ---------------------------------------------------------------------------------------------------------


_GIVEN = "(fn, input, second=None, third=None, fourth=None, *, axis=-1, reverse=False)"


@composed(*spell("scan", _GIVEN), dtypes=STORABLE, calls=True)
def scan_with(
    k: Kit, fn: Static, input: Value, second: Value = None, third: Value = None, fourth: Value = None, axis: Static = -1, reverse: Static = False
) -> object:
    """Running results of an associative function along an axis, from the first element on or, reversed, from the last: of one array
    fn(before, element), of several arrays fn(befores…, elements…), which gives as many values."""
    values = [value for value in (input, second, third, fourth) if value is not None]
    types, place = [k.type(value) for value in values], axis_of(k, axis, rank_of(k, input))
    for type in types:
        if type.shape != types[0].shape or type.valid != type.shape:
            raise ShapeError(f"scan takes arrays of one shape that are valid everywhere, got {types[0]} and {type}", help="pl.broadcast_to and pl.fillpad make them so")
    extent = types[0].shape[place]
    if not isinstance(extent, int):
        raise ShapeError(f"scan needs an axis whose extent is known while compiling, got {types[0]}", help="annotate the extent, or carry the result through a pl.range loop")
    # Of a tensor in memory a value is made: writing into its parts would change it.
    values = [k("expand_clone", value, value) if isinstance(k.type(value), BufferType) else value for value in values]
    values = [k("flip", value, place) for value in values] if reverse else values
    distance = 1
    while distance < extent:
        values = _doubled(k, fn, values, place, distance)
        distance *= 2
    values = [k("flip", value, place) for value in values] if reverse else values
    return values[0] if len(values) == 1 else tuple(values)


def _doubled(k: Kit, fn: object, values: Sequence[Handle], place: int, distance: int) -> list[Handle]:
    """Results of `distance` elements each, joined with those of as many elements before them."""
    shape, types = shape_of(k, values[0]), [k.type(value) for value in values]
    later = [0] * len(shape)
    later[place] = distance
    part = [*shape[:place], shape[place] - distance, *shape[place + 1 :]]
    # The first ones are left as they are: what fn makes of them is not looked at.
    before = [k("assemble", value, k("slice", value, part, [0] * len(shape)), later) for value in values]
    joined = k.call(fn, *before, *values)
    if len(joined) != len(values) or any(k.type(new).shape != type.shape or k.type(new).dtype is not type.dtype for new, type in zip(joined, types, strict=True)):
        made = ", ".join(str(k.type(value)) for value in joined)
        raise ShapeError(f"the function of scan gives what it takes, {', '.join(map(str, types))}, got {made}", help="return one value for each array, of its shape and dtype")
    return [k("assemble", value, k("slice", new, part, later), later) for value, new in zip(values, joined, strict=True)]
