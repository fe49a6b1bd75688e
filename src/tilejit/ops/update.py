"""Rows that write into tensors by index. On a buffer the front end keeps them as an effect that changes it; their reference makes a new value."""

from __future__ import annotations

import math

import numpy as np

from tilejit.dtypes import INT32, INT64, UINT32
from tilejit.errors import ArgumentError, DTypeError, ShapeError
from tilejit.ops.dtype_rules import require
from tilejit.ops.evaluate import ArrayValue
from tilejit.ops.facts import Facts, Fails
from tilejit.ops.gather import checked
from tilejit.ops.movement import movement
from tilejit.ops.shape_rules import result_type
from tilejit.ops.spec import Call, Static, Value, spell
from tilejit.types.values import BufferType, ShapedType, TileType, ValueType, shape_text, static_shape

# elements -------------------------------------------------------------------------------------------------------------


def _infer_mscatter(call: Call) -> tuple[ValueType, ...]:
    src, idx, out = call.shaped("src"), call.shaped("idx"), call.shaped("output_tensor")
    require(call, "idx", idx.dtype, {INT32, UINT32})
    if not isinstance(out, BufferType):
        raise ArgumentError(f"mscatter writes into a tensor in global memory, got {out}", help="the order is pl.mscatter(tile, indices, tensor)")
    if src.dtype is not out.dtype:
        raise DTypeError(f"mscatter takes `src` of the tensor's dtype {out.dtype}, got {src.dtype}", help=f"convert it first: pl.cast(src, pl.{out.dtype})")
    if idx.shape != src.shape:
        raise ShapeError(f"mscatter takes `src` and `idx` of one shape, got {shape_text(src.shape)} and {shape_text(idx.shape)}", help="one index for every element of `src`")
    return (result_type(call, out.shape, out.dtype, out.shape),)


def _mscatter(results: tuple[TileType, ...], src: ArrayValue, idx: ArrayValue, output_tensor: ArrayValue) -> ArrayValue:
    box = tuple(slice(0, min(a, b)) for a, b in zip(src.valid, idx.valid, strict=True))
    places = checked("mscatter", idx.data[box], output_tensor.data.size)
    out = np.ascontiguousarray(output_tensor.data).copy()
    flat = out.reshape(-1)
    for place, cell in zip(places.ravel(), src.data[box].ravel(), strict=True):
        flat[place] = cell
    return ArrayValue(out, out.shape)


@movement(
    *spell("mscatter", pl="=tile", tile="(src, idx, output_tensor)"),
    infer=_infer_mscatter,
    reference=_mscatter,
    attrs={"mixed": True},
    facts=Facts(writes="output_tensor", fails=Fails.Indices),
)
def mscatter(src: Value, idx: Value, output_tensor: Value) -> object:
    """Write src's elements into a tensor at flat row-major indices; evaluates to that tensor. Of equal indices the last wins."""


# rows -----------------------------------------------------------------------------------------------------------------


def _infer_update(call: Call) -> tuple[ValueType, ...]:
    for name in ("index", "src"):
        if call.arg(name) is None:
            raise ArgumentError(f"scatter_update needs `{name}`", help="pl.scatter_update(x, -2, index, src)")
    input, index, src = call.shaped("input"), call.shaped("index"), call.shaped("src")
    if call.arg("dim") != -2 or isinstance(call.arg("dim"), bool):
        raise ArgumentError(f"scatter_update replaces rows: `dim` is -2, got {call.arg('dim')!r}", help="pl.scatter_update(x, -2, index, src)")
    if input.rank not in (2, 4) or src.rank != input.rank:
        raise ShapeError(f"scatter_update takes `input` and `src` of rank 2 or 4, got {shape_text(input.shape)} and {shape_text(src.shape)}", help="[rows, columns], or [blocks, block_size, 1, columns] for pages")
    if index.rank != 2:
        raise ShapeError(f"scatter_update takes an `index` of rank 2, got {shape_text(index.shape)}", help="reshape it first: pl.reshape(index, [batch, rows])")
    require(call, "index", index.dtype, {INT32, INT64})
    if src.dtype is not input.dtype:
        raise DTypeError(f"scatter_update takes `src` of the dtype {input.dtype}, got {src.dtype}", help=f"convert it first: pl.cast(src, pl.{input.dtype})")
    if isinstance(input.shape[-1], int) and isinstance(src.shape[-1], int) and input.shape[-1] != src.shape[-1]:
        raise ShapeError(f"scatter_update takes rows of {input.shape[-1]} elements, got {src.shape[-1]}", help="whole rows are replaced")
    for name, type in (("input", input), ("index", index), ("src", src)):
        if type.valid != type.shape:
            raise ShapeError(f"scatter_update takes operands that are valid everywhere, got {type} as `{name}`", help="fill it first: pl.fillpad(…)")
    _check_count(index, src)
    return (result_type(call, input.shape, input.dtype, input.shape, input.space if isinstance(input, TileType) else "Vec"),)


def _check_count(index: ShapedType, src: ShapedType) -> None:
    wanted, there = static_shape(index.shape), static_shape(src.shape[:-1])
    if wanted is not None and there is not None and math.prod(wanted) != math.prod(there):
        raise ShapeError(
            f"scatter_update takes one row of `src` per index: {shape_text(index.shape)} has {math.prod(wanted)}, {shape_text(src.shape)} has {math.prod(there)}",
            help="cut `src` or `index` to the rows that are wanted",
        )


def _update(results: tuple[TileType, ...], input: ArrayValue, dim: int, index: ArrayValue, src: ArrayValue) -> ArrayValue:
    out = np.ascontiguousarray(input.data).copy()
    rows, given = out.reshape(-1, out.shape[-1]), src.data.reshape(-1, src.data.shape[-1])
    places = checked("scatter_update", index.data.reshape(-1), rows.shape[0])
    if len(places) != len(given) or rows.shape[1] != given.shape[1]:
        raise ShapeError(f"scatter_update: {len(places)} rows of {rows.shape[1]} elements are wanted, `src` has {len(given)} of {given.shape[1]}")
    for place, line in zip(places, given, strict=True):
        rows[place] = line
    return ArrayValue(out, out.shape)


_UPDATE = "(input, *args, **kwargs)"


@movement(
    *spell("scatter_update", _UPDATE),
    infer=_infer_update,
    reference=_update,
    attrs={"mixed": True, "forms": ("(input, dim, index, src)", "(input, index, src, dim=-2)")},
    facts=Facts(writes="input", fails=Fails.Indices),
)
def scatter_update(input: Value, dim: Static = -2, index: Value = None, src: Value = None) -> object:
    """input with row index.flat[k] (over all dims but the last) replaced by row k of src; a tensor in memory is changed itself."""

