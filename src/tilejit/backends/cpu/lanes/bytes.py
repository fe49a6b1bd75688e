"""Bytes as BF16, which holds all of them exactly: by tables where the processor looks up bytes, through FP32 elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.backends.cpu.llvm.vector import constant, convert, icmp, intrinsic, joined, picked, select, shuffle, typed, width_of
from tilejit.dtypes import DType

_TABLE = 64
"""Bytes in a vector, and so in half of what one instruction looks up."""


def together() -> int:
    """How many bytes are turned best at a time; 1: any number."""
    return _TABLE if host().vector_bits == 8 * _TABLE and host().has("avx512vbmi") else 1


def bytes_as_bf16(e: Emitter, dtype: DType, raw: Value) -> Value:
    """INT8 or UINT8 lanes as the bits of BF16."""
    if width_of(raw.type) == together() == _TABLE:
        return _by_tables(e, dtype, raw)
    wide = convert(e, "sitofp" if dtype.is_signed else "uitofp", raw, "float")
    type = typed("i16", 2 * width_of(wide.type))
    halves = e.inst(type, f"bitcast {wide} to {type}")
    return picked(e, halves, None, range(1, 2 * width_of(wide.type), 2))


def _by_tables(e: Emitter, dtype: DType, raw: Value) -> Value:
    """Lower and upper bytes are looked up apart; two instructions then interleave them within quarters, for which the eighths are put in order first."""
    bits = np.arange(256, dtype=np.uint8).view(dtype.numpy).astype(np.float32).view(np.uint32) >> 16
    index = shuffle(e, raw, None, [8 * eighth + lane for eighth in (0, 4, 1, 5, 2, 6, 3, 7) for lane in range(8)])
    low, high = (_looked_up(e, index, [int(number) >> shift & 255 for number in bits]) for shift in (0, 8))
    quarters = range(0, _TABLE, 16)
    pairs = [[lane for quarter in quarters for at in range(quarter + first, quarter + first + 8) for lane in (at, at + _TABLE)] for first in (0, 8)]
    mixed = joined(e, [shuffle(e, low, high, lanes) for lanes in pairs])
    type = typed("i16", _TABLE)
    return e.inst(type, f"bitcast {mixed} to {type}")


def _looked_up(e: Emitter, index: Value, table: Sequence[int]) -> Value:
    """The numbers of a table of 256 bytes; one of 128 has half the instructions, and does where negative numbers have those of positive ones."""
    if all(table[number] == table[-number & 127] for number in range(128, 256)):
        return _half(e, intrinsic(e, "abs", index, extra=("i1 false",)), table)
    upper = icmp(e, "slt", index, constant(index.type, 0))
    return select(e, upper, _half(e, index, table[128:]), _half(e, index, table))


def _half(e: Emitter, index: Value, table: Sequence[int]) -> Value:
    """The first 128 bytes of a table by the lower 7 bits of `index`."""
    first, second = (f"<{_TABLE} x i8> <{', '.join(f'i8 {byte}' for byte in table[at : at + _TABLE])}>" for at in (0, _TABLE))
    name = "llvm.x86.avx512.vpermi2var.qi.512"
    e.module.declare(name, f"declare {index.type} @{name}({index.type}, {index.type}, {index.type})")
    return e.inst(index.type, f"call {index.type} @{name}({first}, {index}, {second})")
