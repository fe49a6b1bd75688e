"""`pl.print` as code: a record in the log of the call (runtime/call/printing.py), in the order of the run."""

from __future__ import annotations

from collections.abc import Sequence

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.lanes.registers import store_lanes
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.backends.cpu.memory.storage import Array, element_count, row_major
from tilejit.backends.cpu.nests.nest import copy_box
from tilejit.dtypes import INDEX, TASK_ID, DType
from tilejit.runtime.call import abi
from tilejit.runtime.call.printing import END, LOST, NEXT, WORD, print_row
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ArrayType, ScalarType, ShapedType


def write_print(f: FunctionWriter, op: d.EffectOp) -> None:
    e = f.e
    parts = op.statics.get("parts")
    operands = [(_dtype(d.type_of(arg)), f.get(arg)) for arg in op.args]
    row = print_row(parts if isinstance(parts, tuple) else [None] * len(operands), [(dtype, _rank(held)) for dtype, held in operands], op.span)
    log = e.load("ptr", e.offset(f.context, abi.PRINTED, "i64"), WORD)
    size: Index = WORD
    for dtype, held in operands:
        size = e.add(size, _bytes(f, dtype, held))
    with e.when(e.inst("i1", f"icmp ne ptr {log.text}, null"), "log"):
        start = e.load("i64", e.offset(log, NEXT, "i64"), WORD)
        after = e.i64(e.add(start, size))
        fits = e.icmp("ule", after, e.load("i64", e.offset(log, END, "i64"), WORD))
        lost = e.offset(log, LOST, "i64")
        missed = e.inst("i64", f"select i1 {fits.text}, i64 0, i64 1")
        e.store(e.i64(e.add(e.load("i64", lost, WORD), missed)), lost, WORD)
        with e.when(fits, "print"):
            e.store(after, e.offset(log, NEXT, "i64"), WORD)
            _write_record(f, e.inst("ptr", f"inttoptr {start} to ptr"), f.unit.failure(row), operands)


def _write_record(f: FunctionWriter, at: Value, row: int, operands: Sequence[tuple[DType, Value | Array]]) -> None:
    e = f.e
    e.store(e.i64(row), at, WORD)
    at = e.offset(at, 1, "i64")
    for dtype, held in operands:
        if isinstance(held, Value):
            store_lanes(e, dtype, at, held, 1)
            at = e.offset(at, 1, "i64")
            continue
        for axis, extent in enumerate(held.valid):
            e.store(e.i64(extent), e.offset(at, axis, "i64"), WORD)
        at = e.offset(at, held.rank, "i64")
        copy = Array(at, held.dtype, held.valid, row_major(e, held.valid), held.valid, frozenset({object()}))
        copy_box(e, copy, held, held.valid)
        at = e.offset(at, _cells(f, dtype, held), "i8")


def _bytes(f: FunctionWriter, dtype: DType, held: Value | Array) -> Index:
    return WORD if isinstance(held, Value) else f.e.add(held.rank * WORD, _cells(f, dtype, held))


def _cells(f: FunctionWriter, dtype: DType, held: Array) -> Index:
    """Bytes of the cells, in whole words."""
    size = f.e.add(f.e.mul(element_count(f.e, held.valid), dtype.get_byte()), WORD - 1)
    return size // WORD * WORD if isinstance(size, int) else f.e.inst("i64", f"and {size}, {-WORD}")


def _rank(held: Value | Array) -> int | None:
    return None if isinstance(held, Value) else held.rank


def _dtype(type: object) -> DType:
    assert isinstance(type, ScalarType | ShapedType | ArrayType)
    return INDEX if type.dtype is TASK_ID else type.dtype
