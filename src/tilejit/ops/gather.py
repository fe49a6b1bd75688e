"""Rows that pick elements by index, by column pattern or by comparison. Every index is checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilejit.dtypes import COMPLEX64, FP32, INDEX, INT16, INT32, INT64, UINT32, DType
from tilejit.errors import ArgumentError, DTypeError, OutOfBoundsError, ShapeError
from tilejit.ops import numbers
from tilejit.ops.compare import COMPARISONS
from tilejit.ops.dtype_rules import NUMBERS, check_scalar, dtype_names, require
from tilejit.ops.elementwise import value_dtype
from tilejit.ops.evaluate import ArrayValue, placed, poison
from tilejit.ops.facts import Facts, Fails
from tilejit.ops.movement import STORABLE, movement
from tilejit.ops.numbers import NDArray
from tilejit.ops.shape_rules import require_rank, result_type
from tilejit.ops.spec import Call, Scalar, ScalarArg, Scratch, Static, Value, spell
from tilejit.types.values import ANY, Dim, TileType, ValueType, shape_text

PATTERNS: dict[int, tuple[int, int]] = {1: (0, 2), 2: (1, 2), 3: (0, 4), 4: (1, 4), 5: (2, 4), 6: (3, 4), 7: (0, 1)}
"""First column and step of each mask pattern."""
INDEX_HELP = "keep 0 <= index < extent"
CMP_MODES = ("eq", "ne", "lt", "le", "gt", "ge")


def checked(name: str, indices: NDArray, extent: int) -> NDArray:
    """Indices as int64, refused when one lies outside [0, extent)."""
    wide = indices.astype(np.int64)
    outside = (wide < 0) | (wide >= extent)
    if outside.any():
        raise OutOfBoundsError(f"{name}: index {int(wide[outside].flat[0])} of an extent of {extent}", help=INDEX_HELP)
    return wide


def pattern_of(call: Call) -> tuple[int, int]:
    """First column and step of the call's mask pattern."""
    pattern = call.arg("mask_pattern")
    if not isinstance(pattern, int) or isinstance(pattern, bool) or int(pattern) not in PATTERNS:
        raise ArgumentError(f"{call.row.title} has no mask pattern {pattern!r}", help="one of pl.tile.MaskPattern.P0101, P1010, P0001, P0010, P0100, P1000, P1111")
    return PATTERNS[int(pattern)]


def divided(call: Call, columns: Dim, step: int) -> Dim:
    """Columns that a pattern with this step picks."""
    if not isinstance(columns, int):
        return columns if step == 1 else ANY
    check_columns(call.row.title, columns, step)
    return columns // step


def check_columns(name: str, columns: int, step: int) -> None:
    if columns % step:
        raise ShapeError(f"{name} needs columns divisible by {step}, got {columns}", help="pad with pl.fillpad_expand first")


def index_dtype(call: Call, name: str, data: DType) -> None:
    """INT32 indices, or INT16 ones for 16-bit data; tensors are gathered by INT64 ones too."""
    got = call.shaped(name).dtype
    accepted = {INT32, INT16} if data.bits == 16 else {INT32}
    require(call, name, got, accepted | {INT64} if call.level == "tensor" and name == "index" else accepted)


# by index -------------------------------------------------------------------------------------------------------------


def _infer_by_index(call: Call) -> tuple[ValueType, ...]:
    input, index, dim = call.shaped("input"), call.shaped("index"), call.arg("dim")
    if input.rank < 2 or index.rank != input.rank:
        raise ShapeError(f"gather takes an index of the input's rank, 2 or more, got {shape_text(input.shape)} and {shape_text(index.shape)}", help="give the index as many dims as the input")
    if not isinstance(dim, int) or isinstance(dim, bool) or not -input.rank <= dim < input.rank:
        raise ShapeError(f"gather takes an axis of {input.rank} dims as `dim`, got {dim!r}", help="for example dim=-1")
    index_dtype(call, "index", input.dtype)
    for axis, (there, wanted) in enumerate(zip(input.shape, index.shape, strict=True)):
        if axis != dim % input.rank and isinstance(there, int) and isinstance(wanted, int) and wanted > there:
            raise ShapeError(f"gather: index {shape_text(index.shape)} is larger than {shape_text(input.shape)} in dim {axis}", help="only the gathered dim may be longer")
    return (result_type(call, index.shape, input.dtype, index.valid),)


def _by_index(input: ArrayValue, index: ArrayValue, dim: int) -> ArrayValue:
    axis = dim % input.data.ndim
    indices = checked("gather", index.box, input.valid[axis])
    grid: list[NDArray] = list(np.indices(indices.shape, sparse=True))
    for other, (wanted, there) in enumerate(zip(indices.shape, input.valid, strict=True)):
        if other != axis and wanted > there:
            raise OutOfBoundsError(f"gather: {wanted} rows of index for an extent of {there} in dim {other}")
    grid[axis] = indices
    return placed(input.data[tuple(grid)], index.data.shape, value_dtype(input.data))


# by pattern -----------------------------------------------------------------------------------------------------------


def _infer_by_pattern(call: Call, source: str) -> tuple[ValueType, ...]:
    data, (_, step) = call.shaped(source), pattern_of(call)
    dtype = call.arg("output_dtype") or data.dtype
    if not isinstance(dtype, DType) or dtype.bits != data.dtype.bits:
        raise DTypeError(f"{call.row.title} takes an `output_dtype` as wide as {data.dtype}, got {dtype}", help="the bits are kept: convert with pl.cast afterwards")
    columns = divided(call, data.shape[-1], step)
    valid = columns if data.valid[-1] == data.shape[-1] else _picked_valid(data.valid[-1], pattern_of(call))
    return (result_type(call, (*data.shape[:-1], columns), dtype, (*data.valid[:-1], valid)),)


def _picked_valid(columns: Dim, pattern: tuple[int, int]) -> Dim:
    return len(range(pattern[0], columns, pattern[1])) if isinstance(columns, int) else ANY


def _by_pattern(result: ValueType, data: ArrayValue, mask_pattern: int) -> ArrayValue:
    assert isinstance(result, TileType)
    first, step = PATTERNS[int(mask_pattern)]
    check_columns("gather", data.data.shape[-1], step)
    cells = np.ascontiguousarray(data.box[..., first::step]).view(result.dtype.numpy)
    return placed(cells, (*data.data.shape[:-1], data.data.shape[-1] // step), result.dtype)


# by comparison --------------------------------------------------------------------------------------------------------


def _infer_by_comparison(call: Call, source: str) -> tuple[ValueType, ...]:
    data, kvalue, out_cols = call.shaped(source), call.arg("kvalue"), call.arg("out_cols")
    require_rank(call, source, data, 2)
    require(call, source, data.dtype, NUMBERS)
    if not isinstance(kvalue, ScalarArg):
        raise ArgumentError(f"{call.row.title} takes a scalar as `kvalue`", help="for example kvalue=0.0")
    check_scalar(call, "kvalue", kvalue, data.dtype)
    is_number = kvalue.const is not None and (kvalue.dtype is INDEX or (kvalue.dtype is FP32 and data.dtype.is_float))
    if kvalue.dtype is not data.dtype and not is_number:
        raise DTypeError(f"{call.row.title} takes a `kvalue` of the data's {data.dtype}, got {kvalue.dtype}", help=f"convert it first: pl.cast(kvalue, pl.{data.dtype})")
    if call.arg("cmp_mode") not in CMP_MODES:
        raise ArgumentError(f"{call.row.title} has no cmp_mode {call.arg('cmp_mode')!r}", help=f"one of {', '.join(CMP_MODES)}")
    if not isinstance(out_cols, int) or isinstance(out_cols, bool) or out_cols < 1:
        raise ArgumentError(f"{call.row.title} takes a positive constant as `out_cols`, got {out_cols!r}", help="the most matches to keep per row: out_cols=16")
    offset = call.arg("offset")
    if not isinstance(offset, int) or isinstance(offset, bool) or not -(1 << 31) <= offset < 1 << 31:
        raise ArgumentError(f"{call.row.title} takes a constant integer as `offset`, got {offset!r}", help="it is added to the positions: offset=0")
    counts = call.arg("count_dtype") or INT32
    if counts not in (INT32, UINT32, INT16, INT64):
        raise DTypeError(f"{call.row.title} counts in {dtype_names({INT32, UINT32, INT16, INT64})}, got {counts}", help="count_dtype=pl.INT32 is the default")
    assert isinstance(counts, DType)
    rows, valid = data.shape[0], data.valid[0]
    positions = result_type(call, (rows, out_cols), INT32, (valid, out_cols))
    return (positions, result_type(call, (1, rows), counts, (1, valid)))


def _by_comparison(results: Sequence[ValueType], data: ArrayValue, kvalue: Any, cmp_mode: str, offset: int, out_cols: int) -> tuple[ArrayValue, ArrayValue]:
    matches = COMPARISONS[CMP_MODES.index(cmp_mode)](data.box, numbers.convert(np.asarray(kvalue), value_dtype(data.data)))
    rows = data.data.shape[0]
    positions = poison((rows, out_cols), INT32)
    counts = np.zeros((1, matches.shape[0]), np.int64)
    for row, line in enumerate(matches):
        found = np.flatnonzero(line)[:out_cols]
        positions[row, : len(found)] = found + offset
        counts[0, row] = len(found)
    type = results[1]
    assert isinstance(type, TileType)
    return ArrayValue(positions, (data.valid[0], out_cols)), placed(numbers.convert(counts, type.dtype), (1, rows), type.dtype)


# rows -----------------------------------------------------------------------------------------------------------------


def _infer_gather(call: Call) -> tuple[ValueType, ...]:
    forms = {"index": _infer_by_index, "mask_pattern": lambda c: _infer_by_pattern(c, "input"), "kvalue": lambda c: _infer_by_comparison(c, "input")}
    given = [name for name in forms if call.arg(name) is not None]
    if len(given) != 1:
        raise ArgumentError("gather takes exactly one of `index`, `mask_pattern` and `kvalue`", help="pl.gather(x, dim=-1, index=i), pl.gather(x, mask_pattern=1) or pl.gather(x, kvalue=k, …)")
    return forms[given[0]](call)


def _gather(results: Sequence[ValueType], input: ArrayValue, dim: Any, index: ArrayValue | None, mask_pattern: Any, kvalue: Any, cmp_mode: Any, out_cols: Any, offset: int, **_: object) -> object:
    if index is not None:
        return _by_index(input, index, dim)
    if mask_pattern is not None:
        return _by_pattern(results[0], input, mask_pattern)
    return _by_comparison(results, input, kvalue, cmp_mode, offset, out_cols)


_GATHER = "(input, dim=None, index=None, *, mask_pattern=None, output_dtype=None, kvalue=None, cmp_mode=None, out_cols=None, offset=0, count_dtype=None, fill=None)"


@movement(*spell("gather", pl="=tensor", tensor=_GATHER), infer=_infer_gather, reference=_gather, facts=Facts(fails=Fails.Indices))
def gather(
    input: Value, dim: Static = None, index: Value = None, mask_pattern: Static = None, output_dtype: Static = None,
    kvalue: Scalar = None, cmp_mode: Static = None, out_cols: Static = None, offset: Static = 0, count_dtype: Static = None,
    fill: Scalar = None,
) -> object:  # fmt: skip
    """Elements by index along `dim` (with `fill` an index outside gives it, and is no error), columns by pattern, or (indices, counts) of the columns of each row that compare with `kvalue`:
    ascending, plus `offset`, at most `out_cols` of them, undefined past the count."""


def _infer_flat(call: Call) -> tuple[ValueType, ...]:
    src, indices = call.shaped("src"), call.shaped("indices")
    index_dtype(call, "indices", src.dtype)
    return (result_type(call, indices.shape, src.dtype, indices.valid),)


def _flat(results: tuple[TileType, ...], src: ArrayValue, indices: ArrayValue) -> ArrayValue:
    found = checked("gather", indices.box, src.data.size)
    return placed(src.data.reshape(-1)[found], indices.data.shape, results[0].dtype)


@movement(*spell("gather", tile="(src, indices, tmp)"), infer=_infer_flat, reference=_flat, facts=Facts(fails=Fails.Indices))
def gather_flat(src: Value, indices: Value, tmp: Scratch = None) -> object:
    """Elements of src by flat row-major index."""


def _infer_gather_mask(call: Call) -> tuple[ValueType, ...]:
    return _infer_by_pattern(call, "src")


def _gather_mask(results: tuple[TileType, ...], src: ArrayValue, mask_pattern: int, output_dtype: object) -> ArrayValue:
    return _by_pattern(results[0], src, mask_pattern)


@movement(*spell("gather_mask", tile="(src, mask_pattern, *, output_dtype=None)"), infer=_infer_gather_mask, reference=_gather_mask, facts=Facts(fails=Fails.Region))
def gather_mask(src: Value, mask_pattern: Static, output_dtype: Static = None) -> object:
    """The columns that a pattern selects; `output_dtype` reads their bits as another dtype of the same width."""


def _infer_gather_compare(call: Call) -> tuple[ValueType, ...]:
    return _infer_by_comparison(call, "src")


def _gather_compare(results: Sequence[ValueType], src: ArrayValue, kvalue: Any, cmp_mode: str, offset: int, out_cols: int, count_dtype: object) -> object:
    return _by_comparison(results, src, kvalue, cmp_mode, offset, out_cols)


@movement(
    *spell("gather_compare", tile="(src, kvalue, tmp, *, cmp_mode='eq', offset=0, out_cols, count_dtype=None)"),
    infer=_infer_gather_compare,
    reference=_gather_compare,
)
def gather_compare(
    src: Value, kvalue: Scalar, tmp: Scratch = None, cmp_mode: Static = "eq", offset: Static = 0, out_cols: Static = None, count_dtype: Static = None
) -> object:
    """(indices, counts) of the columns of each row that compare with `kvalue`: ascending, plus `offset`, at most `out_cols` of them."""


BLOCK_BYTES = 32
_BLOCKS = STORABLE - {COMPLEX64}


def _infer_gatherb(call: Call) -> tuple[ValueType, ...]:
    src, offset = call.shaped("src"), call.shaped("offset")
    dtype = call.arg("output_dtype") or src.dtype
    require(call, "src", src.dtype, call.row.dtypes)
    if not isinstance(dtype, DType) or dtype not in call.row.dtypes or dtype.bits % 8:
        raise DTypeError(f"gatherb takes a data type of whole bytes as `output_dtype`, got {dtype}", help="for example output_dtype=pl.INT32")
    require(call, "offset", offset.dtype, {UINT32})
    per_block = BLOCK_BYTES // dtype.get_byte()
    shape, valid = ((*dims[:-1], dims[-1] * per_block if isinstance(dims[-1], int) else ANY) for dims in (offset.shape, offset.valid))
    return (result_type(call, shape, dtype, valid),)


def _gatherb(results: tuple[TileType, ...], src: ArrayValue, offset: ArrayValue, output_dtype: object) -> ArrayValue:
    content = np.ascontiguousarray(src.data).reshape(-1).view(np.uint8)
    starts = checked("gatherb", offset.box, content.size - BLOCK_BYTES + 1)
    blocks = content[starts[..., None] + np.arange(BLOCK_BYTES)].reshape(*starts.shape[:-1], -1)
    dtype = results[0].dtype
    shape = (*offset.data.shape[:-1], offset.data.shape[-1] * (BLOCK_BYTES // dtype.get_byte()))
    return placed(np.ascontiguousarray(blocks).view(dtype.numpy), shape, dtype)


@movement(*spell("gatherb", pl="=tile", tile="(src, offset, *, output_dtype=None)"), infer=_infer_gatherb, reference=_gatherb, dtypes=_BLOCKS, facts=Facts(fails=Fails.Indices))
def gatherb(src: Value, offset: Value, output_dtype: Static = None) -> object:
    """32-byte blocks of src by byte offset, side by side."""

