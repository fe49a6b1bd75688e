"""Rows that run along an axis: running sums, products and extremes.

FP16 and BF16 accumulate in FP32 and are rounded when they are written. Elements are taken in order; fast_math permits another order of sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilejit.errors import ShapeError
from tilejit.ops import numbers
from tilejit.ops.dtype_rules import NUMBERS, require
from tilejit.ops.elementwise import in_register, value_dtype
from tilejit.ops.evaluate import ArrayValue, placed
from tilejit.ops.facts import Facts
from tilejit.ops.shape_rules import result_type
from tilejit.ops.spec import Call, OpSpec, Static, Value, declare, spell
from tilejit.types.values import TileType, ValueType, shape_text

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


def scan(combine: str) -> Callable[[Callable[..., object]], OpSpec]:
    """Declare a running reduction."""

    def declared(stub: Callable[..., object]) -> OpSpec:
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

    return declared


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
