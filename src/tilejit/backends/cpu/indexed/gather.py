"""Ops that pick elements: by index, by column pattern, by comparison, by byte offset."""

from __future__ import annotations

from xdsl.ir import OpResult, SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.indexed.cells import (
    address,
    cells,
    check_index,
    check_rows,
    columns,
    divide,
    flat_address,
    given,
    index_at,
    load_cell,
    size_of,
    store_cell,
)
from tilejit.backends.cpu.lanes.casts import convert_lane
from tilejit.backends.cpu.lanes.ops import COMPARISONS, apply_lane
from tilejit.backends.cpu.lanes.registers import load_lanes, store_lanes
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.backends.cpu.llvm.vector import binary, convert, select
from tilejit.backends.cpu.memory.movement import dense, operand, result_of
from tilejit.backends.cpu.memory.storage import Array, sub_box
from tilejit.backends.cpu.nests.nest import copy_box
from tilejit.backends.cpu.nests.recipes import dtype_of
from tilejit.dtypes import INDEX
from tilejit.ops.gather import BLOCK_BYTES, CMP_MODES, PATTERNS
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args


def write_gather(f: FunctionWriter, op: d.ApplyOp) -> None:
    args = apply_args(op)
    source, index = operand(f, op, "input"), given(f, op, "index")
    if index is not None:
        dim = op.statics["dim"]
        _by_index(f, op, source, index, dim % source.rank)
    elif args["mask_pattern"] is not None:
        _by_pattern(f, op, source)
    else:
        _by_comparison(f, op, source)


def _by_index(f: FunctionWriter, op: d.ApplyOp, source: Array, index: Array, axis: int) -> None:
    e = f.e
    for other, (wanted, there) in enumerate(zip(index.valid, source.valid, strict=True)):
        if other != axis:
            check_rows(f, op, f"gather: {{0}} rows of index for an extent of {{1}} in dim {other}", wanted, there)
    target = result_of(f, op, index.shape, index.valid)
    with cells(e, index.valid) as at:
        found = index_at(e, index, at)
        check_index(f, op, "gather", found, source.valid[axis])
        place = [*at[:axis], found, *at[axis + 1 :]]
        store_cell(e, target, address(e, target, at), load_cell(e, source, address(e, source, place)))


def write_flat(f: FunctionWriter, op: d.ApplyOp) -> None:
    e = f.e
    source, index = operand(f, op, "src"), operand(f, op, "indices")
    target = result_of(f, op, index.shape, index.valid)
    with cells(e, index.valid) as at:
        found = index_at(e, index, at)
        check_index(f, op, "gather", found, size_of(e, source))
        store_cell(e, target, address(e, target, at), load_cell(e, source, flat_address(e, source, found)))


# patterns ---------------------------------------------------------------------------------------------------------------


def pattern(op: d.ApplyOp) -> tuple[int, int]:
    """First column and step of the op's mask pattern."""
    return PATTERNS[int(op.statics["mask_pattern"])]


def check_divisible(f: FunctionWriter, op: d.ApplyOp, extent: Index, step: int) -> None:
    if not isinstance(extent, int) and step > 1:
        rest = divide(f.e, "urem", extent, step)
        failure = Failure("shape", f"{op.op} needs columns divisible by {step}, got {{0}}", op.span, "pad with pl.fillpad_expand first")
        f.fail_if(f.e.icmp("ne", rest, 0), failure, [extent])


def _by_pattern(f: FunctionWriter, op: d.ApplyOp, source: Array) -> None:
    e = f.e
    first, step = pattern(op)
    check_divisible(f, op, source.shape[-1], step)
    count = divide(e, "udiv", source.shape[-1], step)
    whole = source.valid[-1] == source.shape[-1]
    picked = count if whole else divide(e, "udiv", e.add(source.valid[-1], step - 1 - first), step)
    target = result_of(f, op, [*source.shape[:-1], count], [*source.valid[:-1], picked])
    copy_box(e, target, columns(source, e, first, step, picked), [*source.valid[:-1], picked])


def write_gather_mask(f: FunctionWriter, op: d.ApplyOp) -> None:
    _by_pattern(f, op, operand(f, op, "src"))


# comparison -------------------------------------------------------------------------------------------------------------


def _by_comparison(f: FunctionWriter, op: d.ApplyOp, source: Array) -> None:
    """Positions of the matches of each row, and how many there are."""
    e = f.e
    args = apply_args(op)
    wanted, mode, offset, out_cols = args["kvalue"], args["cmp_mode"], args["offset"], args["out_cols"]
    assert isinstance(wanted, SSAValue) and mode in CMP_MODES and isinstance(offset, int) and isinstance(out_cols, int)
    limit = convert_lane(e, f.scalar(wanted), dtype_of(wanted), source.dtype, 1)
    rows, valid_rows = source.shape[0], source.valid[0]
    positions = _result(f, op, 0, [rows, out_cols], [valid_rows, out_cols])
    counts = _result(f, op, 1, [1, rows], [1, valid_rows])
    with cells(e, [valid_rows]) as (row,):
        with e.loop(0, source.valid[1], carried=[Value("0", "i64")], name="column") as loop:
            count = loop.carried[0]
            cell = load_lanes(e, source.dtype, address(e, source, [row, loop.iv]), 1)
            match = apply_lane(e, COMPARISONS[CMP_MODES.index(str(mode))], source.dtype, (cell, limit), 1)
            taken = binary(e, "and", match, e.icmp("slt", count, out_cols))
            # A cell past the last match is undefined: the position goes there, and stays only if it counts.
            place = select(e, taken, count, Value("0", "i64"))
            with e.when(taken):
                store_lanes(e, positions.dtype, address(e, positions, [row, place]), convert(e, "trunc", e.i64(e.add(loop.iv, offset)), "i32"), 1)
            loop.next = [binary(e, "add", count, convert(e, "zext", taken, "i64"))]
        store_lanes(e, counts.dtype, address(e, counts, [0, row]), convert_lane(e, loop.results[0], INDEX, counts.dtype, 1), 1)


def _result(f: FunctionWriter, op: d.ApplyOp, number: int, shape: list[Index], valid: list[Index]) -> Array:
    result = op.results[number]
    assert isinstance(result, OpResult)
    array = f.result_array(result, shape, valid, op.span)
    f.values[result] = array
    return array


def write_gather_compare(f: FunctionWriter, op: d.ApplyOp) -> None:
    _by_comparison(f, op, operand(f, op, "src"))


# blocks of bytes --------------------------------------------------------------------------------------------------------


def write_gatherb(f: FunctionWriter, op: d.ApplyOp) -> None:
    e = f.e
    args = apply_args(op)
    source, offset = dense(f, value_of(args["src"]), op.span), operand(f, op, "offset")
    dtype = dtype_of(op.results[0])
    per_block = BLOCK_BYTES // dtype.get_byte()
    size = e.mul(size_of(e, source), source.dtype.get_byte())
    shape, valid = ([*dims[:-1], e.mul(dims[-1], per_block)] for dims in (offset.shape, offset.valid))
    target = result_of(f, op, shape, valid)
    ones: list[Index] = [1] * (target.rank - 1)
    with cells(e, offset.valid) as at:
        start = index_at(e, offset, at)
        check_index(f, op, "gatherb", start, e.max(0, e.sub(size, BLOCK_BYTES - 1)))
        pointer = e.offset(source.pointer, start, "i8")
        block = Array(pointer, dtype, (*ones, per_block), (*[0] * (target.rank - 1), 1), (*ones, per_block), source.tokens)
        window = sub_box(e, target, [*at[:-1], e.mul(at[-1], per_block)], block.shape)
        _copy_bytes(f, window, block, per_block)


def _copy_bytes(f: FunctionWriter, target: Array, source: Array, count: int) -> None:
    """A block from any byte address: nothing is known about its alignment."""
    e = f.e
    unit = source.dtype.llvm
    vector = e.load(f"<{count} x {unit}>", source.pointer, 1)
    if target.strides[-1] == 1:
        e.store(vector, target.pointer, target.dtype.get_byte())
        return
    for lane in range(count):
        one = e.inst(unit, f"extractelement {vector}, i64 {lane}")
        e.store(one, e.offset(target.pointer, e.mul(lane, target.strides[-1]), unit), target.dtype.get_byte())
