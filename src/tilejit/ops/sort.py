"""Rows that sort and merge (value, index) pairs, descending; equal values keep their order.

Pairs are interleaved: even columns hold values, odd columns the bits of the index in the values' storage (FP16: its low 16 bits).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilejit.dtypes import FP16, FP32, UINT32, DType
from tilejit.errors import ArgumentError, DTypeError, ShapeError
from tilejit.ops.dtype_rules import require
from tilejit.ops.evaluate import ArrayValue, placed
from tilejit.ops.facts import Facts, Fails
from tilejit.ops.movement import movement
from tilejit.ops.numbers import NDArray
from tilejit.ops.shape_rules import require_static, result_type, same_shapes
from tilejit.ops.spec import Call, Scalar, ScalarArg, Scratch, Static, Value, spell
from tilejit.types.values import ShapedType, TileType, ValueType, shape_text

SORTABLE = frozenset({FP16, FP32})
BLOCK = 32
RUN = 64
"""The shortest run that mrgsort merges, in columns of the interleaved row."""


def descending(values: NDArray) -> NDArray:
    """The stable order of the last axis, largest first; NaN comes last."""
    return np.argsort(-values.astype(np.float32), axis=-1, kind="stable")


def merging(runs: Sequence[NDArray]) -> NDArray:
    """The order in which runs, one behind the other, are merged: always the largest of their heads, of equals the one of the earliest run.

    What follows a smaller element of its run waits for it, so its place is that of the smallest element up to it.
    """
    return descending(np.concatenate([np.minimum.accumulate(run.astype(np.float32), axis=-1) for run in runs], axis=-1))


def _infer_sort32(call: Call) -> tuple[ValueType, ...]:
    src, idx = call.shaped("src"), call.shaped("idx")
    require(call, "src", src.dtype, SORTABLE)
    require(call, "idx", idx.dtype, {UINT32}, help="make it with pl.arange(…, dtype=pl.UINT32) or pl.cast")
    shape = require_static(call, "src", same_shapes(call, ["src", "idx"]))
    if shape[-1] % BLOCK or src.valid != src.shape or idx.valid != idx.shape:
        raise ShapeError(f"sort32 sorts whole blocks of {BLOCK} columns, got {src}", help="fill up with pl.fillpad_expand(…, pad_value=pl.PadValue.min)")
    shape = (*shape[:-1], 2 * shape[-1])
    return (result_type(call, shape, src.dtype, shape),)


def _index_bits(idx: NDArray, dtype: DType) -> NDArray:
    return idx.view(np.float32) if dtype is FP32 else idx.astype(np.uint16).view(np.float16)


def _sort32(results: tuple[TileType, ...], src: ArrayValue, idx: ArrayValue) -> ArrayValue:
    dtype = results[0].dtype
    blocks, indices = (array.reshape(*array.shape[:-1], -1, BLOCK) for array in (src.data, idx.data))
    order = descending(blocks)
    values = np.take_along_axis(blocks, order, axis=-1)
    marks = _index_bits(np.take_along_axis(indices, order, axis=-1), dtype)
    shape = (*src.data.shape[:-1], 2 * src.data.shape[-1])
    return placed(np.stack([values, marks], axis=-1).reshape(shape), shape, dtype)


_SORT = "(src, idx)"


@movement(*spell("sort32", _SORT), infer=_infer_sort32, reference=_sort32, dtypes=SORTABLE, facts=Facts(fails=Fails.Region))
def sort32(src: Value, idx: Value) -> object:
    """Each block of 32 columns sorted, largest first, as (value, index) pairs."""


def _lists(call: Call) -> list[str]:
    return [name for name in ("src0", "src1", "src2", "src3") if isinstance(call.arg(name), ShapedType)]


def _infer_mrgsort(call: Call) -> tuple[ValueType, ...]:
    names, block = _lists(call), call.arg("block_len")
    first = call.shaped("src0")
    for name in names:
        require(call, name, call.shaped(name).dtype, SORTABLE)
        if call.shaped(name).dtype is not first.dtype or call.shaped(name).shape[:-1] != first.shape[:-1]:
            raise DTypeError(f"mrgsort takes lists of one dtype and row count, got {first} and {call.shaped(name)}", help="convert or reshape one of them first")
        if require_static(call, name, call.shaped(name).shape)[-1] % 2 or call.shaped(name).valid != call.shaped(name).shape:
            raise ShapeError(f"mrgsort takes whole rows of (value, index) pairs, got {call.shaped(name)}", help="pl.sort32 makes such rows")
    if call.arg("exhausted"):
        raise ArgumentError("mrgsort always merges whole lists", help="leave `exhausted` out")
    if (len(names) > 1) == (block is not None):
        raise ArgumentError("mrgsort takes one list and `block_len`, or two to four lists", help="pl.mrgsort(x, block_len=64) or pl.mrgsort(a, b)")
    columns = sum(require_static(call, name, call.shaped(name).shape)[-1] for name in names)
    if isinstance(block, ScalarArg):
        _check_block(block.const, columns)
    shape = (*first.shape[:-1], columns)
    tmp = call.arg("tmp")
    if len(names) > 1 and call.level == "tile" and (not isinstance(tmp, ShapedType) or tmp.shape != shape):
        raise ShapeError(f"mrgsort of several tiles takes a `tmp` of the result's shape {shape_text(shape)}, got {tmp}", help=f"pl.create_tile({shape_text(shape)}, dtype=…)")
    return (result_type(call, shape, first.dtype, shape),)


def _check_block(block: object, columns: int) -> None:
    if isinstance(block, int) and (block < RUN or block % RUN or columns % block):
        raise ShapeError(f"mrgsort takes a `block_len` that is a multiple of {RUN} and divides {columns}, got {block}", help="64 after pl.sort32, then four times as long with each merge")


def _merged(runs: Sequence[NDArray]) -> NDArray:
    """Interleaved rows, merged as pairs."""
    pairs = [run.reshape(*run.shape[:-1], -1, 2) for run in runs]
    joined, order = np.concatenate(pairs, axis=-2), merging([run[..., 0] for run in pairs])
    return np.take_along_axis(joined, order[..., None], axis=-2).reshape(*joined.shape[:-2], -1)


def _mrgsort(
    results: tuple[TileType, ...], src0: ArrayValue, src1: ArrayValue | None, src2: ArrayValue | None, src3: ArrayValue | None, block_len: Any, **_: object
) -> ArrayValue:
    dtype = results[0].dtype
    if block_len is None:
        lists: Sequence[NDArray] = [value.data for value in (src0, src1, src2, src3) if value is not None]
        merged = _merged(lists)
        return placed(merged, merged.shape, dtype)
    data, run = src0.data, int(block_len)
    _check_block(run, data.shape[-1])
    out = data.copy()
    for start in range(0, data.shape[-1], 4 * run):
        stop = min(start + 4 * run, data.shape[-1])
        out[..., start:stop] = _merged([np.ascontiguousarray(data[..., first : first + run]) for first in range(start, stop, run)])
    return placed(out, data.shape, dtype)


_MERGE = "(src0, src1=None, src2=None, src3=None"


@movement(
    *spell(
        "mrgsort",
        pl=f"{_MERGE}, tmp=None, *, exhausted=False, block_len=None)",
        tensor=f"{_MERGE}, *, exhausted=False, block_len=None)",
        tile=f"{_MERGE}, tmp=None, exhausted=False, *, block_len=None)",
    ),
    infer=_infer_mrgsort,
    reference=_mrgsort,
    dtypes=SORTABLE,
    facts=Facts(fails=Fails.Indices),
)
def mrgsort(
    src0: Value, src1: Value = None, src2: Value = None, src3: Value = None, tmp: Scratch = None, exhausted: Static = False, block_len: Scalar = None
) -> object:
    """One list: each four sorted runs of `block_len` columns become one. Several: two to four sorted lists become one."""
