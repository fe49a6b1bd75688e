"""Bytes as BF16, which holds all of them exactly: by tables where the processor looks up bytes, through FP32 elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.backends.cpu.llvm.vector import binary, constant, convert, icmp, intrinsic, joined, picked, select, shuffle, typed, width_of
from tilejit.dtypes import DType

_TABLE = 64
"""Bytes in a vector, and so in half of what one instruction looks up."""


def together() -> int:
    """How many bytes are turned best at a time; 1: any number."""
    return _TABLE if host().vector_bits == 8 * _TABLE and host().has("avx512vbmi") else 1


ORDER = tuple(16 * quarter + lane for first in (0, 8) for quarter in range(4) for lane in range(first, first + 8))
"""The order in which so many bytes that are turned together come out where nobody asks for their own."""


def bytes_as_bf16(e: Emitter, dtype: DType, raw: Value, *, in_order: bool = True) -> Value:
    """INT8 or UINT8 lanes as the bits of BF16."""
    if width_of(raw.type) == together() == _TABLE:
        return _by_tables(e, dtype, raw, in_order)
    wide = convert(e, "sitofp" if dtype.is_signed else "uitofp", raw, "float")
    type = typed("i16", 2 * width_of(wide.type))
    halves = e.inst(type, f"bitcast {wide} to {type}")
    return picked(e, halves, None, range(1, 2 * width_of(wide.type), 2))


def _by_tables(e: Emitter, dtype: DType, raw: Value, in_order: bool) -> Value:
    """Lower and upper bytes are looked up apart; two instructions then interleave them within quarters, for which the eighths are put in order first."""
    if in_order:
        raw = shuffle(e, raw, None, [ORDER.index(lane) for lane in range(_TABLE)])
    return _interleaved(e, *(_signed_halves if dtype.is_signed else _unsigned_halves)(e, raw))


def _interleaved(e: Emitter, low: Value, high: Value) -> Value:
    """Lower and upper bytes as words."""
    quarters = range(0, _TABLE, 16)
    pairs = [[lane for quarter in quarters for at in range(quarter + first, quarter + first + 8) for lane in (at, at + _TABLE)] for first in (0, 8)]
    mixed = joined(e, [shuffle(e, low, high, lanes) for lanes in pairs])
    type = typed("i16", _TABLE)
    return e.inst(type, f"bitcast {mixed} to {type}")


def index_shift(numbers: Sequence[int]) -> int | None:
    """By how many bits bytes are shifted to look up what they stand for with the 7 bits that are left; None: all 8 bits count."""
    if list(numbers[:128]) == list(numbers[128:]):
        return 0
    return 1 if list(numbers[::2]) == list(numbers[1::2]) else None


def numbers_as_bf16(e: Emitter, numbers: Sequence[int], raw: Value) -> Value:
    """What bytes stand for as the bits of BF16, in `ORDER`; or a single one."""
    if width_of(raw.type) == 1:
        name = f"bytes.{hash_of(numbers)}"
        words = ", ".join(f"i16 {_byte_of(number, 0) | _byte_of(number, 1) << 8}" for number in numbers)
        e.module.declare(name, f"@{name} = internal unnamed_addr constant [256 x i16] [{words}], align 64")
        index = e.inst("i64", f"zext {raw} to i64")
        return e.load("i16", e.inst("ptr", f"getelementptr i16, ptr @{name}, {index}"), 2)
    shift = index_shift(numbers)
    assert shift is not None and width_of(raw.type) == _TABLE
    if shift:  # In words: what comes in from the next byte is the bit that does not count.
        wide = typed("i16", _TABLE // 2)
        moved = binary(e, "lshr", e.inst(wide, f"bitcast {raw} to {wide}"), constant(wide, shift))
        raw = e.inst(raw.type, f"bitcast {moved} to {raw.type}")
    return _interleaved(e, *(_looked_up(e, raw, numbers[:: 1 << shift][:128], byte) for byte in (0, 1)))


def hash_of(numbers: Sequence[int]) -> str:
    """A name for what bytes stand for."""
    return sha256(repr(tuple(numbers)).encode()).hexdigest()[:16]


def _signed_halves(e: Emitter, raw: Value) -> tuple[Value, Value]:
    """The tables have the numbers without their sign, from 128 down to 1; 0 finds 128, whose lower byte is the same, and loses the upper one.

    Nothing here is done by the units that multiply; absolute values and masks would be.
    """
    # A zero that LLVM does not see through, lest it takes the absolute value after all.
    zero = e.inst(raw.type, f'call {raw.type} asm "", "=v,0"({constant(raw.type, 0)})')
    negative = intrinsic(e, "umax", raw, binary(e, "sub", zero, raw))
    low, high = (_looked_up(e, negative, range(128, 0, -1), byte) for byte in (0, 1))
    return low, binary(e, "or", intrinsic(e, "umin", high, negative), binary(e, "and", raw, constant(raw.type, -128)))


def _unsigned_halves(e: Emitter, raw: Value) -> tuple[Value, Value]:
    """The tables have the numbers up to 127; those above are their own lower bytes, but for the leading bit."""
    large = icmp(e, "slt", raw, constant(raw.type, 0))
    low, high = (_looked_up(e, raw, range(128), byte) for byte in (0, 1))
    return select(e, large, binary(e, "xor", raw, constant(raw.type, -128)), low), select(e, large, constant(raw.type, _byte_of(128, 1)), high)


def _byte_of(number: int, byte: int) -> int:
    """The lower (0) or upper (1) byte of a whole number in BF16."""
    return int(np.float32(number).view(np.uint32)) >> 16 + 8 * byte & 255


def _looked_up(e: Emitter, index: Value, numbers: Sequence[int], byte: int) -> Value:
    """A byte of those of 128 numbers that the lower 7 bits of `index` say."""
    table = [_byte_of(number, byte) for number in numbers]
    first, second = (f"<{_TABLE} x i8> <{', '.join(f'i8 {entry}' for entry in table[at : at + _TABLE])}>" for at in (0, _TABLE))
    name = "llvm.x86.avx512.vpermi2var.qi.512"
    e.module.declare(name, f"declare {index.type} @{name}({index.type}, {index.type}, {index.type})")
    return e.inst(index.type, f"call {index.type} @{name}({first}, {index}, {second})")
