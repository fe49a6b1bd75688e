"""Rows that fill what is outside the valid region."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilejit.dtypes import BOOL, COMPLEX64, DType, integer_range
from tilejit.errors import ArgumentError, ShapeError
from tilejit.ops.evaluate import ArrayValue
from tilejit.ops.facts import Facts, Fails
from tilejit.ops.movement import movement
from tilejit.ops.shape_rules import new_shape, result_type
from tilejit.ops.spec import Call, Scalars, Static, Value, spell
from tilejit.types.enums import PadValue
from tilejit.types.values import TileType, ValueType, shape_text


def pad_cell(pad_value: object, dtype: DType) -> object | None:
    """The element that a pad value stands for, or None when it is no pad value: a PadValue, 0, or plus or minus infinity."""
    kind = pad_value
    if isinstance(kind, int | float) and not isinstance(kind, bool):
        kind = PadValue.zero if kind == 0 else {math.inf: PadValue.max, -math.inf: PadValue.min}.get(kind)
    if kind is PadValue.zero:
        return 0
    if kind not in (PadValue.max, PadValue.min):
        return None
    high = kind is PadValue.max
    if dtype.is_integer or dtype is BOOL:
        return integer_range(dtype)[high]
    infinity = math.inf if high else -math.inf
    if dtype.name in ("FP4", "FP8E4M3FN", "FP8E8M0"):
        import ml_dtypes

        limits = ml_dtypes.finfo(dtype.numpy)
        return float(limits.max if high else limits.min)
    return infinity


def check_pad(call: Call, dtype: DType) -> None:
    pad = call.arg("pad_value")
    if pad_cell(pad, dtype) is None:
        raise ArgumentError(f"{call.row.name} has no pad value {pad!r}", help="one of pl.PadValue.zero, max, min, or 0, inf, -inf")
    if dtype is COMPLEX64 and pad_cell(pad, dtype) != 0:
        raise ArgumentError(f"{call.row.name} pads complex numbers with zero, got {pad!r}", help="there is no largest or smallest of them: pl.PadValue.zero")


def padded(value: ArrayValue, shape: tuple[int, ...], pad_value: object, dtype: DType) -> ArrayValue:
    """The valid region in the corner of `shape`, everything else filled."""
    data = np.full(shape, pad_cell(pad_value, dtype), dtype.numpy)
    data[tuple(slice(0, n) for n in value.valid)] = value.box
    return ArrayValue(data, shape)


def _infer_fillpad(call: Call) -> tuple[ValueType, ...]:
    input = call.shaped("input")
    check_pad(call, input.dtype)
    return (result_type(call, input.shape, input.dtype, input.shape),)


def _fillpad(results: tuple[TileType, ...], input: ArrayValue, pad_value: object) -> ArrayValue:
    return padded(input, input.data.shape, pad_value, results[0].dtype)


@movement(
    *spell("fillpad", pl="(value, pad_value=zero)", tensor="(tensor, pad_value=zero)", tile="(tile, pad_value=zero)"),
    *spell("fillpad_inplace", tile="(tile, pad_value=zero)"),
    infer=_infer_fillpad,
    reference=_fillpad,
)
def fillpad(input: Value, pad_value: Static = PadValue.zero) -> object:
    """The same elements with everything outside the valid region filled by zero or the dtype's extremes (infinities for floats)."""


def _infer_fillpad_expand(call: Call) -> tuple[ValueType, ...]:
    input, shape = call.shaped("input"), new_shape(call)
    check_pad(call, input.dtype)
    if len(shape) != input.rank or any(isinstance(old, int) and isinstance(new, int) and new < old for old, new in zip(input.shape, shape, strict=True)):
        raise ShapeError(f"fillpad_expand takes a shape at least as large as {shape_text(input.shape)}, got {shape_text(shape)}", help="cut with pl.slice instead")
    return (result_type(call, shape, input.dtype, shape),)


def _fillpad_expand(results: tuple[TileType, ...], input: ArrayValue, shape: Sequence[Any], pad_value: object) -> ArrayValue:
    wanted = tuple(int(n) for n in shape)
    if any(new < old for old, new in zip(input.data.shape, wanted, strict=True)):
        raise ShapeError(f"fillpad_expand: {list(wanted)} is smaller than {list(input.data.shape)}")
    return padded(input, wanted, pad_value, results[0].dtype)


@movement(
    *spell("fillpad_expand", pl="(value, shape, pad_value=zero)", tensor="(tensor, shape, pad_value=zero)", tile="(tile, shape, pad_value=zero)"),
    infer=_infer_fillpad_expand,
    reference=_fillpad_expand,
    facts=Facts(fails=Fails.Region),
)
def fillpad_expand(input: Value, shape: Scalars, pad_value: Static = PadValue.zero) -> object:
    """The valid region in the corner of a larger value, the rest filled."""
