"""Ops that gather rows and elements of tensors in memory: by index tile, through a page table, one window into an accumulator."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from xdsl.ir import SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.indexed.cells import (
    address,
    apart,
    cells,
    check_index,
    check_rows,
    divide,
    flat_address,
    index_at,
    load_cell,
    ravel,
    size_of,
    store_cell,
    unravel,
)
from tilejit.backends.cpu.lanes.registers import lane_constant, store_lanes
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.backends.cpu.llvm.vector import convert, select
from tilejit.backends.cpu.memory.movement import operand, result_of, scalars
from tilejit.backends.cpu.memory.storage import Array, element_count, permuted, sub_box
from tilejit.backends.cpu.memory.window import check_inside, rewritten, written_valid
from tilejit.backends.cpu.nests.nest import BITS, convert_box, copy_box, fill_box
from tilejit.backends.cpu.nests.transpose import transpose_into
from tilejit.dtypes import UINT32
from tilejit.ops.gather import INDEX_HELP
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args

# by index tile ----------------------------------------------------------------------------------------------------------


def _settled(f: FunctionWriter, op: d.ApplyOp, idx: Array, at: Sequence[Index], extent: Index, policy: str) -> tuple[Value, Value]:
    """An index inside the extent by the op's policy, and whether it was inside to begin with."""
    e = f.e
    if policy == "undefined":
        found = index_at(e, idx, at)
        check_index(f, op, "mgather", found, extent)
        return found, Value("true", "i1")
    found = index_at(e, idx, at, UINT32)
    inside = e.icmp("ult", found, extent)
    if policy == "zero":
        return select(e, inside, found, Value("0", "i64")), inside
    f.fail_if(e.icmp("eq", extent, 0), Failure("bounds", "mgather: index {0} of an extent of 0", op.span, INDEX_HELP), [found])
    settled = divide(e, "urem", found, extent) if policy == "wrap" else e.min(found, e.sub(extent, 1))
    return e.i64(settled), Value("true", "i1")


def write_mgather(f: FunctionWriter, op: d.ApplyOp) -> None:
    args = apply_args(op)
    if args["coalesce"] == "row":
        _rows(f, op, str(args["gather_oob"]))
    else:
        _elements(f, op, str(args["gather_oob"]))


def _narrowed(f: FunctionWriter, op: d.ApplyOp, valid: Sequence[Index]) -> list[Index]:
    wanted = scalars(f, op, "valid_shape")
    if wanted is None:
        return list(valid)
    return [v if v == w else f.e.min(v, f.e.max(w, 0)) for v, w in zip(valid, wanted, strict=True)]


def _rows(f: FunctionWriter, op: d.ApplyOp, policy: str) -> None:
    e = f.e
    mem, idx = operand(f, op, "mem"), operand(f, op, "idx")
    axis = 1 if d.shaped_type(_value(op, "idx")).shape[0] == 1 else 0
    valid = _narrowed(f, op, [idx.valid[axis], mem.shape[-1]])
    target = result_of(f, op, [idx.shape[axis], mem.shape[-1]], valid)
    count = element_count(e, mem.shape[:-1])
    with cells(e, [valid[0]]) as (row,):
        found, inside = _settled(f, op, idx, [row, 0] if axis == 0 else [0, row], count, policy)
        line = sub_box(e, target, [row, 0], [1, valid[1]])
        if policy == "zero":
            # Zero bits: not every element type has a zero, but all of them have those.
            bits = BITS[mem.dtype.get_byte()]
            fill_box(e, replace(line, dtype=bits), lane_constant(bits, 0, 1), line.shape)
        with _only(f, inside):
            _copy_row(f, line, mem, found, 0, valid[1])


def _only(f: FunctionWriter, inside: Value) -> AbstractContextManager[None]:
    """Code that touches a cell which may not exist: skipped then, the zero stays."""
    return nullcontext() if inside.text == "true" else f.e.when(inside)


def _copy_row(f: FunctionWriter, line: Array, mem: Array, row: Index, column: Index, count: Index) -> None:
    """The cells [column, column + count) of the row with a row-major index over all dims but the last."""
    e = f.e
    start = address(e, mem, [*unravel(e, row, mem.shape[:-1]), column])
    copy_box(e, line, Array(start, mem.dtype, (1, count), (0, mem.strides[-1]), (1, count), mem.tokens), [1, count])


def _elements(f: FunctionWriter, op: d.ApplyOp, policy: str) -> None:
    e = f.e
    mem, idx = operand(f, op, "mem"), operand(f, op, "idx")
    valid = _narrowed(f, op, idx.valid)
    target = result_of(f, op, idx.shape, valid)
    with cells(e, valid) as at:
        found, inside = _settled(f, op, idx, at, size_of(e, mem), policy)
        place = address(e, target, at)
        if policy == "zero":
            bits = BITS[mem.dtype.get_byte()]
            store_lanes(e, bits, place, lane_constant(bits, 0, 1), 1)
        with _only(f, inside):
            store_cell(e, target, place, load_cell(e, mem, flat_address(e, mem, found)))


def _value(op: d.ApplyOp, name: str) -> SSAValue:
    return value_of(apply_args(op)[name])


# pages ------------------------------------------------------------------------------------------------------------------


def write_paged(f: FunctionWriter, op: d.ApplyOp) -> None:
    e = f.e
    args = apply_args(op)
    source, indices, pages = (operand(f, op, name) for name in ("src", "indices", "block_table"))
    block, size, limit, column = (args[name] for name in ("block_size", "size", "max_indices", "col_off"))
    assert isinstance(block, int) and isinstance(size, int) and isinstance(limit, int) and isinstance(column, int)
    count = element_count(e, indices.valid)
    if not isinstance(count, int):
        f.fail_if(e.icmp("sgt", count, limit), Failure("shape", f"paged_gather: {{0}} indices for max_indices={limit}", op.span), [count])
    check_rows(f, op, f"paged_gather reads [{column}, {{0}}) of dim 1, which has extent {{1}}", column + size, source.shape[1])
    turned = bool(args["is_trans"])
    target = result_of(f, op, [size, limit] if turned else [limit, size], [size, count] if turned else [count, size])
    rows = permuted(target, [1, 0]) if turned else target
    page_count = element_count(e, pages.valid)
    with cells(e, indices.valid) as at:
        logical = index_at(e, indices, at)
        page = _floor_quotient(f, logical, block)
        check_index(f, op, "paged_gather", page, page_count)
        number = index_at(e, pages, unravel(e, page, pages.valid))
        physical = e.add(e.mul(number, block), divide(e, "srem", logical, block))
        check_index(f, op, "paged_gather", physical, source.shape[0])
        line = sub_box(e, rows, [ravel(e, at, indices.valid), 0], [1, size])
        _copy_row(f, line, source, physical, column, size)


def _floor_quotient(f: FunctionWriter, number: Value, divisor: int) -> Index:
    """Rounded down: a negative row is in a negative page, never in page 0."""
    e = f.e
    rest = e.i64(divide(e, "srem", number, divisor))
    below = convert(e, "zext", e.icmp("slt", rest, 0), "i64")
    return e.sub(divide(e, "sdiv", number, divisor), below)


# a window into an accumulator -------------------------------------------------------------------------------------------


def write_gather_row(f: FunctionWriter, op: d.ApplyOp) -> None:
    e = f.e
    args = apply_args(op)
    source, old = operand(f, op, "src"), _value(op, "dst")
    offsets, start, shape = scalars(f, op, "dst_offset"), scalars(f, op, "src_offset"), scalars(f, op, "shapes")
    assert offsets is not None and start is not None and shape is not None
    size = scalars(f, op, "valid_shape") or shape
    check_inside(f, op, "reads", start, size, source.shape)
    view = sub_box(e, source, start, size, drop=range(source.rank - 2))
    if args["transpose"]:
        view = permuted(view, [1, 0])
    check_inside(f, op, "writes", offsets, view.shape, f.array(old).shape)
    valid = written_valid(f, op, f.array(old), offsets, view.shape)
    view = apart(f, view, f.array(old), op)
    target = rewritten(f, op, old)
    window = sub_box(e, target, offsets, view.shape)
    if args["transpose"] and window.dtype is view.dtype:
        transpose_into(e, window, view, view.shape)
    else:
        convert_box(e, window, view, view.shape)
    f.values[op.results[0]] = target.with_valid(valid)
