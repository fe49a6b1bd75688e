"""Sorting of (value, index) pairs, descending and stable, NaN last: blocks of 32 by counting ranks, sorted runs by merging."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.indexed.cells import address, apart, cells, divide, load_cell, store_cell
from tilejit.backends.cpu.lanes.patterns import Pattern, load_pattern
from tilejit.backends.cpu.lanes.registers import load_lanes
from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.llvm.vector import binary, constant, convert, fcmp, icmp, intrinsic, select, splat
from tilejit.backends.cpu.memory.movement import operand, result_of
from tilejit.backends.cpu.memory.storage import Array
from tilejit.dtypes import FP32
from tilejit.ops.sort import BLOCK, RUN
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args


def _key(e: Emitter, value: Value) -> Value:
    """Integers in the order of the floats: both zeros are one, NaN is below everything."""
    bits = convert(e, "bitcast", binary(e, "fadd", value, constant(value.type, 0.0)), "i32")
    flip = binary(e, "and", binary(e, "ashr", bits, constant(bits.type, 31)), constant(bits.type, 0x7FFFFFFF))
    return select(e, fcmp(e, "uno", value, value), constant(bits.type, -0x80000000), binary(e, "xor", bits, flip))


# blocks -----------------------------------------------------------------------------------------------------------------


def write_sort32(f: FunctionWriter, op: d.ApplyOp) -> None:
    e = f.e
    source, index = operand(f, op, "src"), operand(f, op, "idx")
    target = result_of(f, op, [*source.shape[:-1], e.mul(source.shape[-1], 2)], [*source.shape[:-1], e.mul(source.shape[-1], 2)])
    keys_at = e.alloca(f"[{BLOCK} x i32]")
    with cells(e, source.shape[:-1]) as row, e.loop(0, source.shape[-1], BLOCK, name="block") as block:
        values = load_pattern(e, source.dtype, address(e, source, [*row, block.iv]), Pattern(source.strides[-1]), BLOCK)
        keys = _key(e, values)
        e.store(keys, keys_at, 64)
        with e.loop(0, BLOCK, name="rank") as each:
            rank = _rank(e, keys, keys_at, each.iv)
            column = e.add(block.iv, each.iv)
            place = e.mul(e.add(block.iv, rank), 2)
            store_cell(e, target, address(e, target, [*row, place]), load_cell(e, source, address(e, source, [*row, column])))
            mark = e.load("i32", address(e, index, [*row, column]), 4)
            bits = convert(e, "bitcast", mark if source.dtype is FP32 else convert(e, "trunc", mark, "i16"), target.dtype.llvm)
            store_cell(e, target, address(e, target, [*row, e.add(place, 1)]), bits)


def _rank(e: Emitter, keys: Value, keys_at: Value, lane: Value) -> Value:
    """How many elements come before that of `lane`: the larger ones, and the equal ones to its left."""
    own = splat(e, e.load("i32", e.offset(keys_at, lane, "i32"), 4), BLOCK)
    larger, equal = (_mask(e, icmp(e, predicate, keys, own)) for predicate in ("sgt", "eq"))
    left = binary(e, "sub", binary(e, "shl", Value("1", "i32"), convert(e, "trunc", lane, "i32")), Value("1", "i32"))
    before = binary(e, "or", larger, binary(e, "and", equal, left))
    return convert(e, "zext", intrinsic(e, "ctpop", before), "i64")


def _mask(e: Emitter, lanes: Value) -> Value:
    return e.inst("i32", f"bitcast {lanes} to i32")


# runs -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Run:
    """A sorted stretch of a row: pairs [first, stop) of an array."""

    array: Array
    first: Index
    stop: Index


def _merge(e: Emitter, target: Array, row: Sequence[Index], start: Index, runs: Sequence[_Run], count: Index) -> None:
    """`count` pairs from the heads of the runs, the largest first; of equals the one of the earliest run."""
    heads = [e.i64(run.first) for run in runs]
    with e.loop(0, count, carried=heads, name="pair") as loop:
        best, chosen = Value(str(-(1 << 40)), "i64"), Value("0", "i64")
        keys: list[Value] = []
        for number, (run, head) in enumerate(zip(runs, loop.carried, strict=True)):
            left = e.icmp("slt", head, run.stop)
            # A run that is used up still has an address: its pair is read and not taken.
            safe = select(e, left, head, Value("0", "i64"))
            value = load_lanes(e, run.array.dtype, address(e, run.array, [*row, e.mul(safe, 2)]), 1)
            key = select(e, left, convert(e, "sext", _key(e, value), "i64"), Value(str(-(1 << 40)), "i64"))
            keys.append(key)
            ahead = icmp(e, "sgt", key, best)
            best, chosen = select(e, ahead, key, best), select(e, ahead, Value(str(number), "i64"), chosen)
        pointer, stride = _chosen(e, row, runs, loop.carried, chosen)
        column = e.mul(e.add(start, loop.iv), 2)
        for part in range(2):
            cell = load_cell(e, runs[0].array, e.offset(pointer, e.mul(stride, part), target.dtype.llvm))
            store_cell(e, target, address(e, target, [*row, e.add(column, part)]), cell)
        loop.next = [
            binary(e, "add", head, convert(e, "zext", icmp(e, "eq", chosen, Value(str(number), "i64")), "i64")) for number, head in enumerate(loop.carried)
        ]


def _chosen(e: Emitter, row: Sequence[Index], runs: Sequence[_Run], heads: Sequence[Value], chosen: Value) -> tuple[Value, Index]:
    """The address of the chosen run's head, and the distance of its two cells."""
    pointer = address(e, runs[0].array, [*row, e.mul(heads[0], 2)])
    stride: Index = runs[0].array.strides[-1]
    for number, (run, head) in enumerate(zip(runs[1:], heads[1:], strict=True), 1):
        this = icmp(e, "eq", chosen, Value(str(number), "i64"))
        pointer = select(e, this, address(e, run.array, [*row, e.mul(head, 2)]), pointer)
        if run.array.strides[-1] != stride:
            stride = select(e, this, e.i64(run.array.strides[-1]), e.i64(stride))
    return pointer, stride


def write_mrgsort(f: FunctionWriter, op: d.ApplyOp) -> None:
    args = apply_args(op)
    lists = [f.array(value) for name in ("src0", "src1", "src2", "src3") if isinstance(value := args.get(name), SSAValue)]
    block = args.get("block_len")
    if isinstance(block, SSAValue):
        _merge_runs(f, op, lists[0], f.index(block))
    else:
        _merge_lists(f, op, lists)


def _merge_lists(f: FunctionWriter, op: d.ApplyOp, lists: Sequence[Array]) -> None:
    e = f.e
    total: Index = 0
    for item in lists:
        total = e.add(total, item.shape[-1])
    shape = [*lists[0].shape[:-1], total]
    target = result_of(f, op, shape, shape)
    with cells(e, shape[:-1]) as row:
        runs = [_Run(item, 0, divide(e, "udiv", item.shape[-1], 2)) for item in lists]
        _merge(e, target, row, 0, runs, divide(e, "udiv", total, 2))


def _merge_runs(f: FunctionWriter, op: d.ApplyOp, source: Array, block: Index) -> None:
    e = f.e
    columns = source.shape[-1]
    if not isinstance(block, int):
        text = f"mrgsort takes a `block_len` that is a multiple of {RUN} and divides {{1}}, got {{0}}"
        failure = Failure("shape", text, op.span)
        f.fail_if(e.icmp("slt", block, RUN), failure, [block, columns])
        uneven = binary(e, "or", e.i64(divide(e, "urem", block, RUN)), e.i64(divide(e, "urem", columns, block)))
        f.fail_if(e.icmp("ne", uneven, 0), failure, [block, columns])
    target = result_of(f, op, source.shape, source.shape)
    source = apart(f, source, target, op)
    run, pairs = divide(e, "udiv", block, 2), divide(e, "udiv", columns, 2)
    with cells(e, source.shape[:-1]) as row, e.loop(0, pairs, e.mul(run, 4), name="group") as group:
        runs: list[_Run] = []
        for number in range(4):
            first = e.min(e.add(group.iv, e.mul(run, number)), pairs)
            runs.append(_Run(source, first, e.min(e.add(first, run), pairs)))
        _merge(e, target, row, group.iv, runs, e.sub(runs[-1].stop, group.iv))
