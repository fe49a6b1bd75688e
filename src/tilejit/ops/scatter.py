"""Rows that put elements where an index or a column pattern says. Every index is checked; of equal indices the last wins."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilejit.dtypes import INT16, INT32, DType
from tilejit.errors import ArgumentError, DTypeError, OutOfBoundsError, ShapeError
from tilejit.ops.dtype_rules import require
from tilejit.ops.evaluate import ArrayValue
from tilejit.ops.facts import Facts, Fails
from tilejit.ops.gather import PATTERNS, checked, divided, pattern_of
from tilejit.ops.movement import movement
from tilejit.ops.shape_rules import result_type
from tilejit.ops.spec import Call, Static, Value, spell
from tilejit.types.values import ShapedType, TileType, ValueType, shape_text


def _index_dtype(call: Call, name: str, data: DType) -> None:
    require(call, name, call.shaped(name).dtype, {INT32} if data.bits >= 32 else {INT16})


def _same_dtype(call: Call, first: ShapedType, second: ShapedType) -> None:
    if first.dtype is not second.dtype:
        raise DTypeError(f"{call.row.title} takes data of one dtype, got {first.dtype} and {second.dtype}", help=f"convert one: pl.cast(…, pl.{first.dtype})")


def _like(call: Call, base: ShapedType) -> tuple[ValueType, ...]:
    return (result_type(call, base.shape, base.dtype, base.valid),)


# by index -------------------------------------------------------------------------------------------------------------


def _infer_by_index(call: Call) -> tuple[ValueType, ...]:
    input, index, src, dim = call.shaped("input"), call.shaped("index"), call.arg("src"), call.arg("dim")
    if not isinstance(src, ShapedType):
        raise ArgumentError("scatter needs `src` next to `index`", help="pl.scatter(x, dim=-1, index=i, src=s)")
    if input.rank != 2 or dim not in (-1, 1):
        raise ShapeError(f"scatter works along the last of 2 dims, got dim={dim!r} of {shape_text(input.shape)}", help="dim=-1")
    _same_dtype(call, input, src)
    _index_dtype(call, "index", input.dtype)
    if index.shape != src.shape or index.rank != 2:
        raise ShapeError(f"scatter takes `src` and `index` of one shape, got {shape_text(src.shape)} and {shape_text(index.shape)}", help="one index for every element of `src`")
    return _like(call, input)


def _by_index(input: ArrayValue, index: ArrayValue, src: ArrayValue) -> ArrayValue:
    columns = checked("scatter", index.box, input.data.shape[1])
    if columns.shape[0] > input.data.shape[0]:
        raise OutOfBoundsError(f"scatter: {columns.shape[0]} rows of index for {input.data.shape[0]} rows")
    out = input.data.copy()
    cells = src.data[: columns.shape[0], : columns.shape[1]]
    for column in range(columns.shape[1]):
        out[np.arange(columns.shape[0]), columns[:, column]] = cells[:, column]
    return ArrayValue(out, input.valid)


# by pattern -----------------------------------------------------------------------------------------------------------


def _infer_by_pattern(call: Call, base: ShapedType, compact: ShapedType) -> tuple[ValueType, ...]:
    _same_dtype(call, base, compact)
    wanted = (*base.shape[:-1], divided(call, base.shape[-1], pattern_of(call)[1]))
    if compact.shape != wanted:
        raise ShapeError(f"{call.row.title} takes {shape_text(wanted)} for the selected columns of {shape_text(base.shape)}, got {shape_text(compact.shape)}", help="the compact operand comes first, the base is `dst`")
    return _like(call, base)


def _by_pattern(base: ArrayValue, compact: ArrayValue, mask_pattern: int) -> ArrayValue:
    first, step = PATTERNS[int(mask_pattern)]
    out = base.data.copy()
    out[..., first::step] = compact.data
    return ArrayValue(out, base.valid)


# rows -----------------------------------------------------------------------------------------------------------------


def _infer_scatter(call: Call) -> tuple[ValueType, ...]:
    if (call.arg("index") is None) == (call.arg("mask_pattern") is None):
        raise ArgumentError("scatter takes exactly one of `index` and `mask_pattern`", help="pl.scatter(x, dim=-1, index=i, src=s) or pl.scatter(compact, mask_pattern=1, dst=base)")
    if call.arg("index") is not None:
        return _infer_by_index(call)
    base = call.arg("dst")
    if not isinstance(base, ShapedType):
        raise ArgumentError("scatter needs `dst` next to `mask_pattern`", help="pl.scatter(compact, mask_pattern=1, dst=base)")
    return _infer_by_pattern(call, base, call.shaped("input"))


def _scatter(results: tuple[TileType, ...], input: ArrayValue, dim: Any, index: ArrayValue | None, src: Any, mask_pattern: Any, dst: Any) -> ArrayValue:
    return _by_index(input, index, src) if index is not None else _by_pattern(dst, input, mask_pattern)


@movement(
    *spell("scatter", pl="=tensor", tensor="(input, dim=None, index=None, src=None, *, mask_pattern=None, dst=None)"),
    infer=_infer_scatter,
    reference=_scatter,
    facts=Facts(fails=Fails.Indices),
)
def scatter(input: Value, dim: Static = None, index: Value = None, src: Value = None, mask_pattern: Static = None, dst: Value = None) -> object:
    """input with src's elements at the columns that index names, or dst with input in the columns that a pattern selects."""


def _infer_flat(call: Call) -> tuple[ValueType, ...]:
    dst, src, indexes = call.shaped("dst"), call.shaped("src"), call.shaped("indexes")
    _same_dtype(call, dst, src)
    _index_dtype(call, "indexes", dst.dtype)
    if indexes.shape != src.shape:
        raise ShapeError(f"scatter takes `src` and `indexes` of one shape, got {shape_text(src.shape)} and {shape_text(indexes.shape)}", help="one index for every element of `src`")
    return _like(call, dst)


def _flat(results: tuple[TileType, ...], dst: ArrayValue, src: ArrayValue, indexes: ArrayValue) -> ArrayValue:
    places = checked("scatter", indexes.box, dst.data.size)
    out = dst.data.copy()
    flat = out.reshape(-1)
    for place, cell in zip(places.ravel(), src.data[tuple(slice(0, n) for n in places.shape)].ravel(), strict=True):
        flat[place] = cell
    return ArrayValue(out, dst.valid)


@movement(*spell("scatter", tile="(dst, src, indexes)"), infer=_infer_flat, reference=_flat, facts=Facts(fails=Fails.Indices))
def scatter_flat(dst: Value, src: Value, indexes: Value) -> object:
    """dst with src's elements at flat row-major indices."""


def _infer_scatter_mask(call: Call) -> tuple[ValueType, ...]:
    return _infer_by_pattern(call, call.shaped("dst"), call.shaped("src"))


def _scatter_mask(results: tuple[TileType, ...], dst: ArrayValue, src: ArrayValue, mask_pattern: int) -> ArrayValue:
    return _by_pattern(dst, src, mask_pattern)


@movement(*spell("scatter_mask", tile="(dst, src, mask_pattern)"), infer=_infer_scatter_mask, reference=_scatter_mask, facts=Facts(fails=Fails.Region))
def scatter_mask(dst: Value, src: Value, mask_pattern: Static) -> object:
    """dst with src in the columns that a pattern selects."""
