"""Rows that reduce rows (the last axis) or columns (the one before it), keeping the axis with extent 1.

Sums and products of FP16 and BF16 accumulate in FP32 and round once; FP32 and FP64 add in NumPy's order (pairwise along rows); integers wrap.
A sum of BOOL counts, as INT32; its maximum says whether any element holds, its minimum whether all do. Only the valid region takes part. For maxima and minima NaN wins; of equal elements the first index wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tilejit.dtypes import BOOL, COMPLEX64, INT32, DType
from tilejit.errors import ShapeError
from tilejit.ops import numbers
from tilejit.ops.dtype_rules import NUMBERS, require
from tilejit.ops.elementwise import in_register, value_dtype
from tilejit.ops.evaluate import ArrayValue, placed
from tilejit.ops.facts import Facts, Fails, Valid
from tilejit.ops.numbers import NDArray
from tilejit.ops.shape_rules import result_type
from tilejit.ops.spec import Call, OpSpec, Scratch, Stub, Value, declarator, declare, spell
from tilejit.types.values import ShapedType, TileType, ValueType, shape_text

COMBINERS: dict[str, Callable[..., NDArray]] = {
    "sum": np.add.reduce,
    "prod": np.multiply.reduce,
    "max": np.maximum.reduce,
    "min": np.minimum.reduce,
    "argmax": np.argmax,
    "argmin": np.argmin,
}
_EXTREMES = ("max", "min", "argmax", "argmin")


def reduced_axis(axis: str, level: str, rank: int) -> int:
    """The axis a row or column reduction removes; columns of a tile of rank above 2 run along axis 0."""
    if axis == "row":
        return rank - 1
    return 0 if level == "tile" and rank > 2 else rank - 2


NOTHING_HELP = "only sums and products of nothing have a value"


def order_matters(row: OpSpec, dtype: DType) -> bool:
    """Whether a row reduces along the last axis with rounding after each step; the other axes are always taken in order."""
    return row.family == "reduction" and row.attrs["axis"] == "row" and row.attrs["combine"] in ("sum", "prod") and dtype.is_float


def _infer(call: Call) -> tuple[ValueType, ...]:
    input = call.shaped("input")
    require(call, "input", input.dtype, call.row.dtypes)
    direction, combine = call.row.attrs["axis"], call.row.attrs["combine"]
    assert isinstance(direction, str) and isinstance(combine, str)
    if input.rank < (1 if direction == "row" else 2):
        raise ShapeError(f"{call.row.name} takes at least 2 dims, got {shape_text(input.shape)}", help="reshape it first with pl.reshape")
    axis = reduced_axis(direction, input.level, input.rank)
    if input.valid[axis] == 0:
        raise ShapeError(f"{call.row.name} of an empty region: dim {axis} of {input} has no valid element", help="widen the valid region first")
    tmp = call.arg("tmp")
    if combine.startswith("arg") and isinstance(tmp, ShapedType) and (tmp.shape != input.shape or tmp.dtype is not input.dtype):
        raise ShapeError(
            f"{call.row.name} takes a `tmp_tile` of {shape_text(input.shape)} {input.dtype}, got {tmp}", help="give it the shape and dtype of the operand"
        )
    dtype = INT32 if combine.startswith("arg") or (combine == "sum" and input.dtype is BOOL) else input.dtype
    shape = (*input.shape[:axis], 1, *input.shape[axis + 1 :])
    return (result_type(call, shape, dtype, (*input.valid[:axis], 1, *input.valid[axis + 1 :])),)


def _reference(name: str, direction: str, combine: str) -> Callable[..., Any]:
    def evaluate(results: tuple[TileType, ...], input: ArrayValue) -> ArrayValue:
        axis = reduced_axis(direction, results[0].level, input.data.ndim)
        box, dtype = input.box, value_dtype(input.data)
        if combine in _EXTREMES and box.shape[axis] == 0 and box.size == 0 and all(n for i, n in enumerate(box.shape) if i != axis):
            raise ShapeError(f"{name} of nothing: dim {axis} has extent 0", help=NOTHING_HELP)
        cells = numbers.convert(box, INT32) if combine == "sum" and dtype is BOOL else in_register(box, dtype)
        if combine == "sum" and axis != cells.ndim - 1 and 0 not in cells.shape:
            # One row after the other, also where a single column would make NumPy add pairwise.
            out = np.add.accumulate(cells, axis=axis, dtype=cells.dtype).take([-1], axis=axis)
        elif combine in ("sum", "prod"):
            out = COMBINERS[combine](cells, axis=axis, keepdims=True, dtype=cells.dtype)
        elif box.size == 0:
            out = np.zeros((*box.shape[:axis], 1, *box.shape[axis + 1 :]), cells.dtype)
        else:
            out = COMBINERS[combine](cells, axis=axis, keepdims=True)
        shape = (*input.data.shape[:axis], 1, *input.data.shape[axis + 1 :])
        return placed(numbers.convert(out, results[0].dtype), shape, results[0].dtype)

    return evaluate


@declarator
def reduction(stub: Stub, axis: str, combine: str, tmp: bool = True, dtypes: Iterable[DType] = NUMBERS) -> OpSpec:
    """Declare a reduction along "row" or "col" with one of COMBINERS; `tmp`: whether its tile form takes a scratch tile, which it does not need."""
    pl = "(input, tmp_tile=None)" if tmp else "(input)"
    tile = "(tile, tmp_tile=None)" if tmp else "(tile)"
    name = stub.__name__
    return declare(
        stub,
        family="reduction",
        infer=_infer,
        reference=_reference(name, axis, combine),
        dtypes=frozenset(dtypes),
        spellings=spell(name, pl=pl, tensor="(input)", tile=tile),
        attrs={"axis": axis, "combine": combine},
        # Nothing has a largest element: an extreme of an empty axis fails.
        facts=Facts(valid=Valid.Folded, exact=combine in _EXTREMES, counts=combine == "sum", scales=combine in ("max", "min"), fails=Fails.Region if combine in _EXTREMES else Fails.Never),
    )


_WITH_MASKS = NUMBERS | {BOOL}


@reduction("row", "sum", dtypes=_WITH_MASKS | {COMPLEX64})
def row_sum(input: Value, tmp: Scratch = None) -> object:
    """The sum of each row."""


@reduction("row", "max", dtypes=_WITH_MASKS)
def row_max(input: Value, tmp: Scratch = None) -> object:
    """The largest element of each row."""


@reduction("row", "min", dtypes=_WITH_MASKS)
def row_min(input: Value, tmp: Scratch = None) -> object:
    """The smallest element of each row."""


@reduction("row", "prod")
def row_prod(input: Value, tmp: Scratch = None) -> object:
    """The product of each row."""


@reduction("row", "argmax")
def row_argmax(input: Value, tmp: Scratch = None) -> object:
    """The column of the largest element of each row, as INT32; the first of equals."""


@reduction("row", "argmin")
def row_argmin(input: Value, tmp: Scratch = None) -> object:
    """The column of the smallest element of each row, as INT32; the first of equals."""


@reduction("col", "sum", dtypes=_WITH_MASKS | {COMPLEX64})
def col_sum(input: Value, tmp: Scratch = None) -> object:
    """The sum of each column."""


@reduction("col", "max", tmp=False, dtypes=_WITH_MASKS)
def col_max(input: Value, tmp: Scratch = None) -> object:
    """The largest element of each column."""


@reduction("col", "min", tmp=False, dtypes=_WITH_MASKS)
def col_min(input: Value, tmp: Scratch = None) -> object:
    """The smallest element of each column."""


@reduction("col", "prod", tmp=False)
def col_prod(input: Value, tmp: Scratch = None) -> object:
    """The product of each column."""


@reduction("col", "argmax")
def col_argmax(input: Value, tmp: Scratch = None) -> object:
    """The row of the largest element of each column, as INT32; the first of equals."""


@reduction("col", "argmin")
def col_argmin(input: Value, tmp: Scratch = None) -> object:
    """The row of the smallest element of each column, as INT32; the first of equals."""
