"""Sums and products of rows in the order of the reference, for `fast_math=False`.

NumPy adds a row pairwise: up to 128 elements in eight accumulators, longer rows as the sum of their halves. Products run from left
to right. Both are functions over elements of FP32 or FP64 that lie side by side.
"""

from __future__ import annotations

from tilejit import ops
from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.indexed.cells import address, cells
from tilejit.backends.cpu.lanes.registers import round_to, store_lanes
from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.llvm.vector import binary, constant, extract
from tilejit.backends.cpu.memory.movement import operand, result_of
from tilejit.backends.cpu.memory.storage import Array
from tilejit.backends.cpu.nests.nest import convert_box
from tilejit.dtypes import FP32, FP64, DType
from tilejit.ops.reduce import order_matters
from tilejit.tile_ir import dialect as d

_LEAF = 128


def applies(f: FunctionWriter, op: d.ApplyOp) -> bool:
    """Whether the order of additions is the reference's business here."""
    row = ops.table()[op.op]
    return f.e.module.precise and row.family == "reduction" and order_matters(row, d.shaped_type(op.args[0]).dtype)


def write(f: FunctionWriter, op: d.ApplyOp) -> None:
    """A row sum or product, row by row."""
    e = f.e
    source = operand(f, op, "input")
    work = FP64 if source.dtype is FP64 else FP32
    if source.dtype is not work or source.strides[-1] != 1:
        dense = f.new_array(work, source.shape, source.valid, op.span)
        convert_box(e, dense, source, source.valid)
        source = dense
    target = result_of(f, op, [*source.shape[:-1], 1], [*source.valid[:-1], 1])
    name = (_pairwise if ops.table()[op.op].attrs["combine"] == "sum" else _product)(e, work)
    with cells(e, source.valid[:-1]) as row:
        total = e.inst(work.llvm, f"call {work.llvm} @{name}({address(e, source, [*row, 0])}, {e.i64(source.valid[-1])})")
        _store(e, target, row, total)


def _store(e: Emitter, target: Array, row: list[Index], total: Value) -> None:
    store_lanes(e, target.dtype, address(e, target, [*row, 0]), round_to(e, target.dtype, total), 1)


def _element(f: Emitter, dtype: DType, row: Value, index: Index) -> Value:
    return f.load(dtype.llvm, f.offset(row, index, dtype.llvm), dtype.get_byte())


def _product(e: Emitter, dtype: DType) -> str:
    """`float @row.product.FP32(ptr, i64)`"""
    name, type = f"row.product.{dtype.name}", dtype.llvm
    if name not in e.module.functions:
        row, count = Value("%row", "ptr"), Value("%count", "i64")
        f = Emitter(e.module, name, type, [row, count], "nounwind", "internal")
        with f.loop(0, count, carried=[constant(type, 1)]) as loop:
            loop.next = [binary(f, "fmul", loop.carried[0], _element(f, dtype, row, loop.iv))]
        f.void(f"ret {loop.results[0]}")
        f.finish()
    return name


def _pairwise(e: Emitter, dtype: DType) -> str:
    """`float @row.sum.FP32(ptr, i64)`"""
    name, type = f"row.sum.{dtype.name}", dtype.llvm
    if name in e.module.functions:
        return name
    row, count = Value("%row", "ptr"), Value("%count", "i64")
    f = Emitter(e.module, name, type, [row, count], "nounwind", "internal")
    f.cbr(f.icmp("slt", count, 8), "short", "long")
    f.place("short")
    # From minus zero on, so that the sum of negative zeros is one.
    f.void(f"ret {_added(f, dtype, row, 0, count, constant(type, -0.0))}")
    f.place("long")
    f.cbr(f.icmp("sle", count, _LEAF), "leaf", "halves")
    f.place("leaf")
    whole = binary(f, "and", count, constant("i64", -8))
    lanes, size = f"<8 x {type}>", dtype.get_byte()
    with f.loop(8, whole, 8, carried=[f.load(lanes, row, size)]) as loop:
        loop.next = [binary(f, "fadd", loop.carried[0], f.load(lanes, f.offset(row, loop.iv, type), size))]
    parts = [extract(f, loop.results[0], lane) for lane in range(8)]
    while len(parts) > 1:
        parts = [binary(f, "fadd", parts[at], parts[at + 1]) for at in range(0, len(parts), 2)]
    f.void(f"ret {_added(f, dtype, row, whole, count, parts[0])}")
    f.place("halves")
    half = binary(f, "lshr", count, constant("i64", 1))
    first = binary(f, "and", half, constant("i64", -8))
    left = f.inst(type, f"call {type} @{name}({row}, {first})")
    right = f.inst(type, f"call {type} @{name}({f.offset(row, first, type)}, {f.i64(f.sub(count, first))})")
    f.void(f"ret {binary(f, 'fadd', left, right)}")
    f.finish()
    return name


def _added(f: Emitter, dtype: DType, row: Value, first: Index, end: Index, start: Value) -> Value:
    """`start` and the elements from `first` to `end`, one after the other."""
    with f.loop(first, end, carried=[start]) as loop:
        loop.next = [binary(f, "fadd", loop.carried[0], _element(f, dtype, row, loop.iv))]
    return loop.results[0]
