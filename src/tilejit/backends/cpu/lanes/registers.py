"""How elements are held while computing, and their way from and to memory.

FP16, BF16 and narrower floats are held as `float` lanes already rounded to their type, FP64 as `double`, BOOL as `i1`, everything else in its own
LLVM type (INT4 and UINT4 as `i8`).
"""

from __future__ import annotations

import numpy as np

from tilejit.backends.cpu.lanes.narrow import NARROW, from_byte, round_to_narrow, to_byte
from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.backends.cpu.llvm.vector import binary, constant, convert, fcmp, icmp, select, typed
from tilejit.dtypes import BF16, BOOL, FP16, FP64, DType, integer_range


def register_element(dtype: DType) -> str:
    """LLVM type of one lane in a register."""
    if dtype is BOOL:
        return "i1"
    return "float" if dtype.is_float and dtype is not FP64 else dtype.llvm


def register_type(dtype: DType, width: int) -> str:
    """LLVM type of `width` lanes in registers; width 1 is the scalar type."""
    return typed(register_element(dtype), width)


def lane_constant(dtype: DType, number: float | int | bool, width: int) -> Value:
    """`number` in every lane, converted to `dtype` (integers wrap)."""
    type = register_type(dtype, width)
    if dtype.is_float:
        with np.errstate(all="ignore"):  # What does not fit is infinity, as it is while the kernel runs.
            return constant(type, float(dtype.numpy.type(number)))
    if dtype is BOOL:
        return constant(type, bool(number))
    low, high = integer_range(dtype)
    return constant(type, (int(number) - low) % (high - low + 1) + low)


def round_to(e: Emitter, dtype: DType, value: Value) -> Value:
    """Float lanes rounded to what `dtype` can hold (nearest even)."""
    if dtype is FP16:
        return half_to_float(e, float_to_half(e, value))
    if dtype is BF16:
        bits = _bf16_bits(e, value)
        return convert(e, "bitcast", binary(e, "and", bits, constant(bits.type, -65536)), "float")
    return round_to_narrow(e, dtype, value) if dtype in NARROW and dtype.is_float else value


def _bf16_bits(e: Emitter, value: Value) -> Value:
    """The float bits of `value` rounded to 16 of them; the low half is not cleared. NaN stays NaN."""
    bits = convert(e, "bitcast", value, "i32")
    odd = binary(e, "and", binary(e, "lshr", bits, constant(bits.type, 16)), constant(bits.type, 1))
    rounded = binary(e, "add", binary(e, "add", bits, odd), constant(bits.type, 0x7FFF))
    quiet = binary(e, "or", bits, constant(bits.type, 0x400000))
    return select(e, fcmp(e, "uno", value, value), quiet, rounded)


def float_to_half(e: Emitter, value: Value) -> Value:
    """Nearest-even conversion to `half` lanes."""
    if host().converts_half:
        return convert(e, "fptrunc", value, "half")
    return convert(e, "bitcast", _half_bits(e, value), "half")


def half_to_float(e: Emitter, value: Value) -> Value:
    if host().converts_half:
        return convert(e, "fpext", value, "float")
    return _half_from_bits(e, convert(e, "zext", convert(e, "bitcast", value, "i16"), "i32"))


def _half_bits(e: Emitter, value: Value) -> Value:
    """Nearest-even float to half by integer and float arithmetic, for processors without the instruction."""
    bits = convert(e, "bitcast", value, "i32")
    type = bits.type
    sign = binary(e, "and", bits, constant(type, -0x80000000))
    size = binary(e, "xor", bits, sign)
    # Adding 0.5 to a small number lines its bits up with those of a subnormal half; the adder rounds.
    small = convert(e, "bitcast", binary(e, "fadd", convert(e, "bitcast", size, "float"), constant(value.type, 0.5)), "i32")
    small = binary(e, "sub", small, constant(type, 0x3F000000))
    odd = binary(e, "and", binary(e, "lshr", size, constant(type, 13)), constant(type, 1))
    normal = binary(e, "add", binary(e, "add", size, odd), constant(type, 0xFFF - (112 << 23)))
    normal = binary(e, "lshr", normal, constant(type, 13))
    finite = select(e, icmp(e, "ult", size, constant(type, 113 << 23)), small, normal)
    special = select(e, icmp(e, "ugt", size, constant(type, 0x7F800000)), constant(type, 0x7E00), constant(type, 0x7C00))
    out = select(e, icmp(e, "uge", size, constant(type, 143 << 23)), special, finite)
    return convert(e, "trunc", binary(e, "or", out, binary(e, "lshr", sign, constant(type, 16))), "i16")


def _half_from_bits(e: Emitter, bits: Value) -> Value:
    type = bits.type
    sign = binary(e, "shl", binary(e, "and", bits, constant(type, 0x8000)), constant(type, 16))
    shifted = binary(e, "shl", binary(e, "and", bits, constant(type, 0x7FFF)), constant(type, 13))
    # The exponent bias differs by 112: a multiplication also normalises subnormals.
    scaled = binary(e, "fmul", convert(e, "bitcast", shifted, "float"), constant(typed("float", _width(type)), 2.0**112))
    special = binary(e, "or", shifted, constant(type, 0x7F800000))
    size = select(e, icmp(e, "uge", shifted, constant(type, 0x7C00 << 13)), special, convert(e, "bitcast", scaled, "i32"))
    return convert(e, "bitcast", binary(e, "or", size, sign), "float")


def _width(type: str) -> int:
    return int(type[1:].split(" x ")[0]) if type.startswith("<") else 1


# memory -----------------------------------------------------------------------------------------------------------------


def from_memory(e: Emitter, dtype: DType, value: Value) -> Value:
    """Lanes as loaded, in register form."""
    if dtype is BOOL:
        return icmp(e, "ne", value, constant(value.type, 0))
    if dtype is FP16:
        return half_to_float(e, value)
    if dtype is BF16:
        wide = convert(e, "zext", value, "i32")
        return convert(e, "bitcast", binary(e, "shl", wide, constant(wide.type, 16)), "float")
    return from_byte(e, dtype, value) if dtype in NARROW else value


def to_memory(e: Emitter, dtype: DType, value: Value) -> Value:
    """Lanes in the form that is stored; values are already rounded to `dtype`."""
    if dtype is BOOL:
        return convert(e, "zext", value, "i8")
    if dtype is FP16:
        return float_to_half(e, value)
    if dtype is BF16:
        bits = convert(e, "bitcast", value, "i32")
        return convert(e, "trunc", binary(e, "lshr", bits, constant(bits.type, 16)), "i16")
    return to_byte(e, dtype, value) if dtype in NARROW else value


def load_lanes(e: Emitter, dtype: DType, pointer: Value, width: int) -> Value:
    """`width` consecutive elements, in register form."""
    return from_memory(e, dtype, e.load(typed(dtype.llvm, width), pointer, dtype.get_byte()))


def store_lanes(e: Emitter, dtype: DType, pointer: Value, value: Value, width: int) -> None:
    """Store lanes to `width` consecutive elements."""
    del width
    e.store(to_memory(e, dtype, value), pointer, dtype.get_byte())
