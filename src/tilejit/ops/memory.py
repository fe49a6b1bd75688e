"""Rows that gather from tensors in memory into values: by row, by element, through a page table. They only read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilejit.dtypes import INT32, INT64, UINT32
from tilejit.errors import ArgumentError, DTypeError, OutOfBoundsError, ShapeError
from tilejit.ops.dtype_rules import require
from tilejit.ops.evaluate import ArrayValue, placed
from tilejit.ops.facts import Facts, Fails
from tilejit.ops.gather import checked
from tilejit.ops.movement import movement
from tilejit.ops.numbers import NDArray
from tilejit.ops.shape_rules import extents, narrowed, require_rank, require_static, result_type
from tilejit.ops.spec import Call, Scalars, Scratch, Static, Value, spell
from tilejit.ops.window import check_stored, check_window, merge, written_valid
from tilejit.types.enums import MemorySpace
from tilejit.types.values import ANY, TENSOR_SPACE, Dim, ShapedType, TileType, ValueType, shape_text

POLICIES = ("undefined", "clamp", "wrap", "zero")

# by index tile --------------------------------------------------------------------------------------------------------


def _infer_mgather(call: Call) -> tuple[ValueType, ...]:
    mem, idx, space = call.shaped("mem"), call.shaped("idx"), call.arg("target_memory")
    require(call, "idx", idx.dtype, {INT32, UINT32})
    require_rank(call, "idx", idx, 2)
    if call.arg("gather_oob") not in POLICIES:
        raise ArgumentError(f"mgather has no gather_oob {call.arg('gather_oob')!r}", help=f"one of {', '.join(POLICIES)}")
    if not isinstance(space, MemorySpace) or space is MemorySpace.DDR:
        raise ArgumentError(f"mgather takes an on-chip memory space as `target_memory`, got {space!r}", help="for example pl.Mem.Vec")
    if space is MemorySpace.Mat:
        _check_mat(call, mem, idx)
    if call.arg("coalesce") == "row":
        if idx.shape.count(1) < 1 or mem.rank < 2:
            raise ShapeError(f"mgather of rows takes an index [1, R] or [R, 1] and a tensor of rows, got {shape_text(idx.shape)} and {shape_text(mem.shape)}", help="coalesce='elem' takes an index for every element")
        axis = 1 if idx.shape[0] == 1 else 0
        shape = require_static(call, "mem", (idx.shape[axis], mem.shape[-1]))
        valid: tuple[Dim, ...] = (idx.valid[axis], shape[1])
    elif call.arg("coalesce") == "elem":
        shape, valid = require_static(call, "idx", idx.shape), idx.valid
    else:
        raise ArgumentError(f"mgather coalesces by 'row' or 'elem', got {call.arg('coalesce')!r}", help="coalesce='row' is the default")
    wanted = narrowed(call, shape)
    valid = tuple(w if v == s else v if w == s else ANY for v, w, s in zip(valid, wanted, shape, strict=True))
    return (TileType(shape, mem.dtype, valid, space.value),)


def _check_mat(call: Call, mem: ShapedType, idx: ShapedType) -> None:
    if idx.level != "tensor":
        raise ArgumentError(f"mgather into Mat takes `idx` as a tensor in global memory, got {idx}", help="pass the tensor itself, without pl.load")
    scratch = call.arg("scratch")
    if call.arg("coalesce") == "elem" and not isinstance(scratch, ShapedType):
        raise ArgumentError("mgather of elements into Mat needs `scratch`", help=f"scratch=pl.create_tensor(…, pl.{mem.dtype})")
    if isinstance(scratch, ShapedType) and scratch.dtype is not mem.dtype:
        raise DTypeError(f"mgather takes a `scratch` of {mem.dtype}, got {scratch.dtype}", help="it has the dtype of the gathered tensor")


def settled(name: str, indices: NDArray, extent: int, policy: str) -> tuple[NDArray, NDArray]:
    """Indices inside the extent by an out-of-bounds policy (they count as unsigned), and where they were outside."""
    unsigned = indices.astype(np.int64) & 0xFFFFFFFF
    outside = unsigned >= extent
    if policy == "undefined":
        return checked(name, indices, extent), outside
    if policy == "wrap":
        return unsigned % extent, outside
    return np.minimum(unsigned, extent - 1), outside


def _mgather(
    results: tuple[TileType, ...], mem: ArrayValue, idx: ArrayValue, coalesce: str, gather_oob: str, valid_shape: Sequence[Any] | None, **_: object
) -> ArrayValue:
    table = mem.data.reshape(-1, mem.data.shape[-1]) if coalesce == "row" else mem.data.reshape(-1)
    indices = idx.box.reshape(-1) if coalesce == "row" else idx.box
    places, outside = settled("mgather", indices, table.shape[0], gather_oob)
    cells = table[places]
    if gather_oob == "zero":
        cells = np.where(outside[:, None] if coalesce == "row" else outside, np.zeros((), cells.dtype), cells)
    if valid_shape is not None:
        cells = cells[tuple(slice(0, int(n)) for n in valid_shape)]
    shape = (max(idx.data.shape), mem.data.shape[-1]) if coalesce == "row" else idx.data.shape
    return placed(cells, shape, results[0].dtype)


@movement(
    *spell("mgather", pl="=tile", tile="(mem, idx, coalesce='row', *, gather_oob='undefined', target_memory=Vec, scratch=None, valid_shape=None)"),
    infer=_infer_mgather,
    reference=_mgather,
    attrs={"mixed": True},
    facts=Facts(fails=Fails.Indices),
)
def mgather(
    mem: Value, idx: Value, coalesce: Static = "row", gather_oob: Static = "undefined", target_memory: Static = MemorySpace.Vec,
    scratch: Scratch = None, valid_shape: Scalars = None,
) -> object:  # fmt: skip
    """Rows ("row") or elements ("elem", flat index) of a tensor. Indices outside are an error ("undefined"), or count as unsigned and
    become the last ("clamp"), wrap around ("wrap") or give zeros ("zero")."""


# pages ----------------------------------------------------------------------------------------------------------------


def _constant(call: Call, name: str, least: int) -> int:
    number = call.arg(name)
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise ArgumentError(f"paged_gather takes a constant of at least {least} as `{name}`, got {number!r}", help="it must be known while compiling")
    return number


def _infer_paged(call: Call) -> tuple[ValueType, ...]:
    src, indices = call.shaped("src"), call.shaped("indices")
    require_rank(call, "src", src, 2)
    for name in ("indices", "block_table"):
        require(call, name, call.shaped(name).dtype, {INT32, UINT32, INT64})
    _constant(call, "block_size", 1)
    size, limit, column = _constant(call, "size", 1), _constant(call, "max_indices", 1), _constant(call, "col_off", 0)
    check_window("paged_gather", src.shape, (0, column), (0, size))
    known = [dim for dim in indices.shape if isinstance(dim, int)]
    count: Dim = int(np.prod(known)) if len(known) == indices.rank else ANY
    if isinstance(count, int) and count > limit:
        raise ShapeError(f"paged_gather: {count} indices for max_indices={limit}", help="raise max_indices, or cut the indices")
    shape, valid = (limit, size), (count, size)
    if call.arg("is_trans"):
        shape, valid = shape[::-1], valid[::-1]
    return (TileType(shape, src.dtype, valid, TENSOR_SPACE),)


def _paged(
    results: tuple[TileType, ...], src: ArrayValue, indices: ArrayValue, block_table: ArrayValue, block_size: int, size: int, max_indices: int, col_off: int, is_trans: bool, **_: object
) -> ArrayValue:
    logical = indices.box.reshape(-1).astype(np.int64)
    if len(logical) > max_indices:
        raise ShapeError(f"paged_gather: {len(logical)} indices for max_indices={max_indices}")
    pages = block_table.box.reshape(-1)
    page = checked("paged_gather", logical // block_size, len(pages))
    physical = checked("paged_gather", pages[page].astype(np.int64) * block_size + logical % block_size, src.data.shape[0])
    if col_off + size > src.data.shape[1]:
        raise OutOfBoundsError(f"paged_gather reads [{col_off}, {col_off + size}) of dim 1, which has extent {src.data.shape[1]}")
    rows = src.data[physical, col_off : col_off + size]
    return placed(rows.T if is_trans else rows, (size, max_indices) if is_trans else (max_indices, size), results[0].dtype)


@movement(
    *spell(
        "paged_gather",
        pl="=tensor",
        tensor="(src, indices, block_table, block_size, size, max_indices, *, space=Mat, col_off=0, is_trans=False, is_b_matrix=False)",
    ),
    infer=_infer_paged,
    reference=_paged,
    facts=Facts(fails=Fails.Indices),
)
def paged_gather(
    src: Value, indices: Value, block_table: Value, block_size: Static, size: Static, max_indices: Static,
    space: Static = MemorySpace.Mat, col_off: Static = 0, is_trans: Static = False, is_b_matrix: Static = False,
) -> object:  # fmt: skip
    """Rows of a paged pool: logical row i lies in row block_table[i // block_size] * block_size + i % block_size; columns from
    `col_off`. The result has `max_indices` rows, valid as far as there are indices."""


# one row into an accumulator ------------------------------------------------------------------------------------------


def _infer_row(call: Call) -> tuple[ValueType, ...]:
    dst, src = call.shaped("dst"), call.shaped("src")
    require_rank(call, "dst", dst, 2)
    check_stored("gather_row", dst.dtype, src.dtype)
    shape = extents(call, "shapes")
    if any(isinstance(dim, int) and dim < 1 for dim in shape):
        raise ShapeError(f"gather_row takes positive extents in `shapes`, got {shape_text(shape)}", help="a part may be empty, a shape may not: use valid_shape")
    read = narrowed(call, shape)
    check_window("gather_row", src.shape, extents(call, "src_offset"), read)
    written = (read[-1], read[-2]) if call.arg("transpose") else (read[-2], read[-1])
    offset = extents(call, "dst_offset")
    check_window("gather_row", dst.shape, offset, written, "writes")
    return (result_type(call, dst.shape, dst.dtype, written_valid(call, dst, offset, written), dst.space if isinstance(dst, TileType) else "Vec"),)


def _row(
    results: tuple[TileType, ...], dst: ArrayValue, src: ArrayValue, dst_offset: Sequence[Any], src_offset: Sequence[Any], shapes: Sequence[Any],
    transpose: bool, valid_shape: Sequence[Any] | None,
) -> ArrayValue:  # fmt: skip
    start = [int(n) for n in src_offset]
    size = [int(n) for n in (valid_shape or shapes)]
    for axis, (first, n, extent) in enumerate(zip(start, size, src.data.shape, strict=True)):
        if first < 0 or first + n > extent:
            raise OutOfBoundsError(f"gather_row reads [{first}, {first + n}) of dim {axis}, which has extent {extent}")
    cells = src.data[tuple(slice(first, first + n) for first, n in zip(start, size, strict=True))]
    cells = cells.reshape(cells.shape[-2:])
    cells = np.ascontiguousarray(cells.T if transpose else cells).astype(results[0].dtype.numpy)
    return merge("gather_row", dst, cells, [int(n) for n in dst_offset], cells.shape)


_ROW = "src, dst_offset, src_offset, shapes, transpose=False, *, valid_shape=None)"


@movement(
    *spell("gather_row", pl=f"(dst, {_ROW}", tensor=f"(acc, {_ROW}", tile=f"(dst, {_ROW}"),
    infer=_infer_row,
    reference=_row,
    attrs={"mixed": True, "on_buffer": "store"},
    facts=Facts(fails=Fails.Indices),
)
def gather_row(
    dst: Value, src: Value, dst_offset: Scalars, src_offset: Scalars, shapes: Scalars, transpose: Static = False, valid_shape: Scalars = None
) -> object:
    """dst with a window of the tensor src written at `dst_offset`, transposed on request."""

