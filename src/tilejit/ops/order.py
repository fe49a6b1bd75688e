"""Rows that put elements in order, pick the first of an order, and count them.

The order of floats is that of their numbers, with NaN behind everything; descending is the reverse of it. Equal elements keep their order,
-0.0 and 0.0 among them.
"""

from __future__ import annotations

import numpy as np

from tilejit.dtypes import FP32, INT32
from tilejit.errors import OutOfBoundsError, ShapeError
from tilejit.ops.compose import Handle, Kit, axis_of, composed, product, rank_of, require_values, reshaped, shape_of
from tilejit.ops.dtype_rules import FLOATS, INTEGERS, NUMBERS, require
from tilejit.ops.evaluate import ArrayValue, placed
from tilejit.ops.facts import Facts, Fails
from tilejit.ops.movement import movement
from tilejit.ops.numbers import NDArray
from tilejit.ops.shape_rules import result_type
from tilejit.ops.spec import Call, Scalar, Static, Value, spell
from tilejit.types.values import TileType, ValueType, shape_text

ORDERED = NUMBERS


def keys_of(cells: NDArray, descending: bool) -> NDArray:
    """Unsigned integers in the order of the elements."""
    bits = cells.dtype.itemsize * 8
    unsigned = np.dtype(f"uint{bits}")
    sign = unsigned.type(1 << (bits - 1))
    if cells.dtype.kind in "iu":
        keys = cells.view(unsigned) ^ (sign if cells.dtype.kind == "i" else unsigned.type(0))
    else:
        absent = np.isnan(cells.astype(np.float32))
        raw = np.where(absent, np.array(np.nan, cells.dtype), cells).view(unsigned)
        raw = np.where(absent | (raw == sign), raw & ~sign, raw)
        keys = np.where(raw & sign, ~raw, raw | sign)
    return ~keys if descending else keys


def _whole_rows(call: Call) -> tuple[ValueType, ...]:
    """The types of sorted values and of where they were."""
    input = call.shaped("input")
    require(call, "input", input.dtype, ORDERED)
    if input.valid != input.shape:
        raise ShapeError(f"{call.row.title} takes whole rows, got {input}", help="fill it first: pl.fillpad(…)")
    return (result_type(call, input.shape, input.dtype, input.shape), result_type(call, input.shape, INT32, input.shape))


def _sorted(results: tuple[TileType, ...], input: ArrayValue, descending: bool) -> tuple[ArrayValue, ArrayValue]:
    order = np.argsort(keys_of(np.ascontiguousarray(input.data), descending), axis=-1, kind="stable")
    values = np.take_along_axis(input.data, order, axis=-1)
    return placed(values, values.shape, results[0].dtype), placed(order.astype(np.int32), values.shape, INT32)


_SORT = "(input, descending=False)"


@movement(*spell("sort_rows", _SORT), infer=_whole_rows, reference=_sorted, dtypes=ORDERED)
def sort_rows(input: Value, descending: Static = False) -> object:
    """The elements of each row (along the last axis) in order, and the INT32 index at which each of them was."""


def _infer_topk(call: Call) -> tuple[ValueType, ...]:
    values, _ = _whole_rows(call)
    assert isinstance(values, TileType)
    k, columns = call.arg("k"), values.shape[-1]
    if not isinstance(k, int) or isinstance(k, bool) or k < 1 or (isinstance(columns, int) and k > columns):
        raise ShapeError(f"{call.row.title} takes a `k` from 1 to the extent of the axis, {columns}, got {k!r}", help="it is a constant: the shape of the result")
    if not isinstance(columns, int):
        raise ShapeError(f"{call.row.title} needs an axis whose extent is known while compiling, got {shape_text(values.shape)}", help="annotate the extent, or load a tile")
    shape = (*values.shape[:-1], k)
    return (result_type(call, shape, values.dtype, shape), result_type(call, shape, INT32, shape))


def _topk(results: tuple[TileType, ...], input: ArrayValue, k: int, largest: bool) -> tuple[ArrayValue, ArrayValue]:
    values, order = _sorted(results, input, largest)
    return tuple(placed(part.data[..., :k], (*part.data.shape[:-1], k), type.dtype) for part, type in zip((values, order), results, strict=True))  # type: ignore[return-value]


_TOPK = "(input, k, largest=True)"


@movement(*spell("topk_rows", _TOPK), infer=_infer_topk, reference=_topk, dtypes=ORDERED)
def topk_rows(input: Value, k: Static, largest: Static = True) -> object:
    """The k largest elements of each row in descending order (or the smallest in ascending order), and their INT32 indices; of equals the first."""


# counting -------------------------------------------------------------------------------------------------------------

COUNT_HELP = "numbers go from 0 to length - 1: clip them, or count in more bins"


def _infer_bincount(call: Call) -> tuple[ValueType, ...]:
    input, length, weights = call.shaped("input"), call.arg("length"), call.arg("weights")
    require(call, "input", input.dtype, call.row.dtypes)
    if not isinstance(length, int) or isinstance(length, bool) or length < 1:
        raise ShapeError(f"bincount takes a positive constant as `length`, got {length!r}", help="how many bins there are: the extent of the result")
    if weights is None:
        return (result_type(call, (length,), INT32, (length,)),)
    given = call.shaped("weights")
    require(call, "weights", given.dtype, {FP32, INT32})
    if given.shape != input.shape or given.valid != input.valid:
        raise ShapeError(f"bincount takes one weight for each number, got {given} for {input}", help="give both the same shape")
    return (result_type(call, (length,), given.dtype, (length,)),)


def _bincount(results: tuple[TileType, ...], input: ArrayValue, length: int, weights: ArrayValue | None) -> ArrayValue:
    numbers = input.box.reshape(-1).astype(np.int64)
    out = np.zeros(length, results[0].dtype.numpy)
    for number in numbers[(numbers < 0) | (numbers >= length)][:1]:
        raise OutOfBoundsError(f"bincount: {number} is outside 0 to {length - 1}", help=COUNT_HELP)
    np.add.at(out, numbers, 1 if weights is None else weights.box.reshape(-1))
    return placed(out, (length,), results[0].dtype)


_BINCOUNT = "(input, length, weights=None)"


@movement(
    *spell("bincount", _BINCOUNT), infer=_infer_bincount, reference=_bincount, dtypes=INTEGERS, facts=Facts(fails=Fails.Indices)
)
def bincount(input: Value, length: Static, weights: Value = None) -> object:
    """How often each number from 0 to length - 1 occurs, as INT32; with weights the sum of the weights of its places."""


# any axis -------------------------------------------------------------------------------------------------------------


def _along(k: Kit, value: Handle, axis: object) -> tuple[Handle, int]:
    """The value with the axis at the end, and which one it was."""
    place, last = axis_of(k, axis, rank_of(k, value)), rank_of(k, value) - 1
    return (value if place == last else k("transpose", value, place, last)), place


def _back(k: Kit, value: Handle, place: int) -> Handle:
    last = rank_of(k, value) - 1
    return value if place == last else k("transpose", value, place, last)


_ANY_AXIS = "(input, axis=-1, descending=False)"


@composed(*spell("sort", _ANY_AXIS), dtypes=ORDERED)
def sort(k: Kit, input: Value, axis: Static = -1, descending: Static = False) -> object:
    """The elements in order along an axis; equal ones keep their order, NaN comes last (first if descending)."""
    value, place = _along(k, input, axis)
    return _back(k, k("sort_rows", value, descending)[0], place)


@composed(*spell("argsort", _ANY_AXIS), dtypes=ORDERED)
def argsort(k: Kit, input: Value, axis: Static = -1, descending: Static = False) -> object:
    """The INT32 indices that put the elements in order along an axis; equal ones keep their order."""
    value, place = _along(k, input, axis)
    return _back(k, k("sort_rows", value, descending)[1], place)


@composed(*spell("topk", "(input, k, axis=-1, largest=True)"), dtypes=ORDERED)
def topk(kit: Kit, input: Value, k: Static, axis: Static = -1, largest: Static = True) -> object:
    """The k largest elements along an axis in descending order (or the smallest in ascending order), and their INT32 indices."""
    value, place = _along(kit, input, axis)
    values, indices = kit("topk_rows", value, k, largest)
    return _back(kit, values, place), _back(kit, indices, place)


@composed(*spell("histogram", "(input, bins, low, high)"), dtypes=FLOATS)
def histogram(k: Kit, input: Value, bins: Static, low: Scalar, high: Scalar) -> object:
    """How many elements lie in each of `bins` equal parts of the range from low to high, as INT32; what lies outside is not counted."""
    require_values(k, input, FLOATS)
    if not isinstance(bins, int) or bins < 1:
        raise ShapeError(f"histogram takes a positive constant as `bins`, got {bins!r}", help="how many parts the range has")
    flat = reshaped(k, input, [product(k, shape_of(k, input))])
    flat = flat if k.type(flat).dtype is FP32 else k("cast", flat, FP32)
    part = k("floor", k("div", k("mul", k("sub", flat, low), float(bins)), k("sub", high, low)))
    # Bin 0 takes what lies outside, and what is no number; the upper end belongs to the last part.
    place = k("add", k("clamp", part, 0.0, bins - 1.0), 1.0)
    for beyond in (k("sub", flat, high), k("sub", low, flat)):
        place = k("mul", place, k("sub", 1.0, k("minimum", k("relu", k("mul", beyond, 2.0**126)), 1.0)))
    return k("slice", k("bincount", k("cast", place, INT32), bins + 1), [bins], [1])
