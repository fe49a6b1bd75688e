"""Element types of 8 and 4 bits, which travel through memory and casts only: their bits as lanes, and lanes as their bits.

Floats are held as `float` lanes on the grid of their type, INT4 and UINT4 as `i8` lanes; in memory each takes a byte.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.backends.cpu.llvm.vector import binary, constant, convert, fcmp, icmp, intrinsic, like, select
from tilejit.dtypes import FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, INT4, UINT4, DType


@dataclass(frozen=True, slots=True)
class Format:
    """A float of few bits: sign, exponent, mantissa."""

    mantissa: int
    """Explicit mantissa bits."""
    lowest: int
    """Exponent of the smallest normal number."""
    largest: float
    overflow: float
    """What larger numbers become."""
    bits: int = 8

    @property
    def step(self) -> float:
        """Distance of the subnormal numbers."""
        return 2.0 ** (self.lowest - self.mantissa)


FORMATS = {
    FP8E5M2: Format(2, -14, 57344.0, 65536.0),  # the next number has the pattern of infinity
    FP8E4M3FN: Format(3, -6, 448.0, float("nan")),
    FP4: Format(1, 0, 6.0, 6.0, bits=4),
}
NARROW = frozenset({*FORMATS, FP8E8M0, INT4, UINT4})


def round_to_narrow(e: Emitter, dtype: DType, value: Value) -> Value:
    """Float lanes rounded to the grid of a narrow float type, halves to even."""
    return from_byte(e, dtype, to_byte(e, dtype, value))


def to_byte(e: Emitter, dtype: DType, value: Value) -> Value:
    """The stored byte of lanes; float lanes are rounded on the way, halves to even."""
    if dtype in (INT4, UINT4):
        return binary(e, "and", value, constant(value.type, 15))
    if dtype is FP8E8M0:
        return _exponent_byte(e, value)
    form = FORMATS[dtype]
    size = intrinsic(e, "fabs", value)
    rounded = _on_grid(e, form, size)
    bits = convert(e, "bitcast", rounded, "i32")
    type, drop = bits.type, 23 - form.mantissa
    # Rebias: a normal number's exponent field counts from `lowest` as 1; subnormals count steps.
    normal = binary(e, "sub", binary(e, "lshr", bits, constant(type, drop)), constant(type, (form.lowest + 126) << form.mantissa))
    steps = convert(e, "fptosi", binary(e, "fmul", rounded, constant(value.type, 1 / form.step)), "i32")
    tiny = fcmp(e, "olt", rounded, constant(value.type, 2.0**form.lowest))
    out = select(e, tiny, steps, normal)
    # Zero when NaN has no pattern of its own.
    nan = {FP8E5M2: 0x7E, FP8E4M3FN: 0x7F}.get(dtype, 0)
    out = select(e, fcmp(e, "uno", rounded, rounded), constant(type, nan), out)
    sign = binary(e, "lshr", convert(e, "bitcast", value, "i32"), constant(type, 32 - form.bits))
    out = binary(e, "or", out, binary(e, "and", sign, constant(type, 1 << (form.bits - 1))))
    return convert(e, "trunc", out, "i8")


def _on_grid(e: Emitter, form: Format, size: Value) -> Value:
    """Non-negative floats rounded to the format, halves to even."""
    bits = convert(e, "bitcast", size, "i32")
    type, drop = bits.type, 23 - form.mantissa
    odd = binary(e, "and", binary(e, "lshr", bits, constant(type, drop)), constant(type, 1))
    up = binary(e, "add", binary(e, "add", bits, odd), constant(type, (1 << (drop - 1)) - 1))
    normal = convert(e, "bitcast", binary(e, "and", up, constant(type, -(1 << drop))), "float")
    # Next to this number floats are one step apart, so the adder rounds.
    magic = constant(size.type, form.step * 2.0**23)
    tiny = binary(e, "fsub", binary(e, "fadd", size, magic), magic)
    out = select(e, fcmp(e, "olt", size, constant(size.type, 2.0**form.lowest)), tiny, normal)
    out = select(e, fcmp(e, "ogt", out, constant(size.type, form.largest)), constant(size.type, form.overflow), out)
    return select(e, fcmp(e, "uno", size, size), size, out)


def _exponent_byte(e: Emitter, value: Value) -> Value:
    """FP8E8M0, powers of two from 2**-127 on: halves round up; zero, negative and infinite numbers are NaN (255)."""
    bits = convert(e, "bitcast", value, "i32")
    type = bits.type
    normal = binary(e, "lshr", binary(e, "add", bits, constant(type, 0x400000)), constant(type, 23))
    tiny = convert(e, "zext", icmp(e, "uge", bits, constant(type, 0x600000)), "i32")
    out = select(e, icmp(e, "ult", bits, constant(type, 0x800000)), tiny, normal)
    usable = binary(e, "and", fcmp(e, "ogt", value, constant(value.type, 0)), fcmp(e, "olt", value, constant(value.type, float("inf"))))
    return convert(e, "trunc", select(e, usable, out, constant(type, 255)), "i8")


def from_byte(e: Emitter, dtype: DType, value: Value) -> Value:
    """Stored bytes as lanes."""
    if dtype is UINT4:
        return binary(e, "and", value, constant(value.type, 15))
    if dtype is INT4:
        return binary(e, "ashr", binary(e, "shl", value, constant(value.type, 4)), constant(value.type, 4))
    bits = convert(e, "zext", value, "i32")
    type, floats = bits.type, like(bits, "float")
    if dtype is FP8E8M0:
        out = binary(e, "shl", bits, constant(type, 23))
        out = select(e, icmp(e, "eq", bits, constant(type, 0)), constant(type, 0x400000), out)
        return convert(e, "bitcast", select(e, icmp(e, "eq", bits, constant(type, 255)), constant(type, 0x7FC00000), out), "float")
    form = FORMATS[dtype]
    size = binary(e, "and", bits, constant(type, (1 << (form.bits - 1)) - 1))
    # The fields lie where a float's would, with another bias: a product puts that right, for subnormals too.
    shifted = convert(e, "bitcast", binary(e, "shl", size, constant(type, 23 - form.mantissa)), "float")
    out = binary(e, "fmul", shifted, constant(floats, 2.0 ** (form.lowest + 126)))
    if dtype is FP8E5M2:
        out = select(e, icmp(e, "eq", size, constant(type, 0x7C)), constant(floats, float("inf")), out)
        out = select(e, icmp(e, "ugt", size, constant(type, 0x7C)), constant(floats, float("nan")), out)
    elif dtype is FP8E4M3FN:
        out = select(e, icmp(e, "eq", size, constant(type, 0x7F)), constant(floats, float("nan")), out)
    sign = binary(e, "shl", bits, constant(type, 32 - form.bits))
    sign = binary(e, "and", sign, constant(type, -0x80000000))
    return convert(e, "bitcast", binary(e, "or", convert(e, "bitcast", out, "i32"), sign), "float")
