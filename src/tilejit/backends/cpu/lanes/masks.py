"""Packed masks: one bit per column, least significant first, rows apart."""

from __future__ import annotations

from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.llvm.vector import convert


def _byte(e: Emitter, row: Value, column: Index) -> Value:
    at: Index = column // 8 if isinstance(column, int) else e.inst("i64", f"lshr {column}, 3")
    return e.offset(row, at, "i8")


def _bit(e: Emitter, column: Index) -> str:
    return str(column % 8) if isinstance(column, int) else e.inst("i8", f"trunc i64 {e.inst('i64', f'and {column}, 7').text} to i8").text


def load_mask(e: Emitter, row: Value, lanes: int, column: Index) -> Value:
    """Lanes of a mask; vectors start at a multiple of eight columns."""
    address = _byte(e, row, column)
    if lanes == 1:
        shifted = e.inst("i8", f"lshr {e.load('i8', address, 1)}, {_bit(e, column)}")
        return e.inst("i1", f"trunc {shifted} to i1")
    bits = e.load(f"i{lanes}", address, 1)
    return e.inst(f"<{lanes} x i1>", f"bitcast {bits} to <{lanes} x i1>")


def store_mask(e: Emitter, row: Value, value: Value, lanes: int, column: Index) -> None:
    """Store lanes of a mask. Single columns must come in order: the first of a byte clears it."""
    address = _byte(e, row, column)
    if lanes > 1:
        e.store(e.inst(f"i{lanes}", f"bitcast {value} to i{lanes}"), address, 1)
        return
    bit = _bit(e, column)
    old = e.load("i8", address, 1)
    first = e.inst("i1", f"icmp eq i8 {bit}, 0")
    kept = e.inst("i8", f"select {first}, i8 0, {old}")
    shifted = e.inst("i8", f"shl {convert(e, 'zext', value, 'i8')}, {bit}")
    e.store(e.inst("i8", f"or {kept}, {shifted.text}"), address, 1)
