"""Conversion of lanes between data types, with every rounding mode of the language."""

from __future__ import annotations

from tilejit.backends.cpu.lanes.registers import from_memory, register_element, register_type, round_to, to_memory
from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.backends.cpu.llvm.vector import binary, constant, convert, element_of, fcmp, icmp, intrinsic, select
from tilejit.dtypes import BOOL, FP8E8M0, FP16, FP64, DType, integer_range


def cast_lane(e: Emitter, value: Value, source: DType, target: DType, mode: str, width: int) -> Value:
    """Lanes of `source` converted to `target`, both in register form.

    Modes are "none", "rint" (halves to even), "round" (halves away from zero), "floor", "ceil", "trunc", "odd"; they apply from floats to
    integers and to narrower floats. Floats saturate into integers with NaN as 0; integers wrap; anything but zero is true.
    The conversion of operands to an op's dtype is mode "rint" between floats and "trunc" into integers: see `convert_lane`.
    """
    if source is target:
        return value
    if target is BOOL:
        zero = constant(value.type, 0)
        return fcmp(e, "une", value, zero) if source.is_float else icmp(e, "ne", value, zero)
    if target.is_float:
        return _to_float(e, value, source, target, mode)
    if source.is_float:
        return _float_to_integer(e, value, target, mode, width)
    if source is BOOL:
        return convert(e, "zext", value, register_element(target))
    wide, narrow = (max(dtype.bits, 8) for dtype in (source, target))
    op = "trunc" if narrow < wide else "sext" if source.is_signed else "zext"
    out = value if narrow == wide else convert(e, op, value, register_element(target))
    return _wrapped(e, out, target)


def _wrapped(e: Emitter, value: Value, dtype: DType) -> Value:
    """INT4 and UINT4 wrap within the byte that holds them."""
    return from_memory(e, dtype, to_memory(e, dtype, value)) if dtype.bits < 8 else value


def convert_lane(e: Emitter, value: Value, source: DType, target: DType, width: int) -> Value:
    """Lanes of an operand as the dtype an op computes in, and of a value stored to another dtype."""
    return cast_lane(e, value, source, target, "rint" if target.is_float else "trunc", width)


def _to_float(e: Emitter, value: Value, source: DType, target: DType, mode: str) -> Value:
    if not source.is_float:
        return round_to(e, target, convert(e, "sitofp" if source.is_signed else "uitofp", value, register_element(target)))
    if target is FP64:
        return convert(e, "fpext", value, "double")
    # A wider type holds every value of a narrower one, but FP16 not all powers of two.
    if (target.get_byte() > source.get_byte() and (source, target) != (FP8E8M0, FP16)) or mode in ("none", "rint"):
        return _nearest(e, target, value)
    return _narrowed(e, value, target, mode)


def _nearest(e: Emitter, target: DType, value: Value) -> Value:
    """Float lanes on the grid of `target`; what is narrower than FP32 is reached through it, as in the reference."""
    return round_to(e, target, convert(e, "fptrunc", value, "float"))


def _narrowed(e: Emitter, value: Value, target: DType, mode: str) -> Value:
    """A float rounded to a narrower float: the neighbour toward zero (`inner`) or the one beyond it, by mode."""
    stored = to_memory(e, target, _nearest(e, target, value))
    unit, wide = f"i{8 * target.get_byte()}", element_of(value.type)
    bits = convert(e, "bitcast", stored, unit)
    nearest = _widened(e, target, bits, wide)
    size, near_size = intrinsic(e, "fabs", value), intrinsic(e, "fabs", nearest)
    past = convert(e, "zext", fcmp(e, "ogt", near_size, size), unit)
    inner_bits = binary(e, "sub", bits, past)
    inner = _widened(e, target, inner_bits, wide)
    outer = _widened(e, target, binary(e, "add", inner_bits, constant(bits.type, 1)), wide)
    zero = constant(value.type, 0)
    if mode == "trunc":
        picked = inner
    elif mode == "floor":
        picked = select(e, fcmp(e, "olt", value, zero), outer, inner)
    elif mode == "ceil":
        picked = select(e, fcmp(e, "ogt", value, zero), outer, inner)
    elif mode == "odd":
        even = icmp(e, "eq", binary(e, "and", inner_bits, constant(bits.type, 1)), constant(bits.type, 0))
        picked = select(e, even, outer, inner)
    else:
        assert mode == "round", mode
        below = binary(e, "fsub", size, intrinsic(e, "fabs", inner))
        above = binary(e, "fsub", intrinsic(e, "fabs", outer), size)
        picked = select(e, fcmp(e, "oge", below, above), outer, inner)
        picked = select(e, fcmp(e, "oeq", near_size, constant(value.type, float("inf"))), nearest, picked)
    return convert(e, "fptrunc", select(e, fcmp(e, "ueq", nearest, value), nearest, picked), "float")


def _widened(e: Emitter, dtype: DType, bits: Value, wide: str) -> Value:
    return convert(e, "fpext", from_memory(e, dtype, convert(e, "bitcast", bits, dtype.llvm)), wide)


def _whole(e: Emitter, value: Value, mode: str) -> Value:
    """Floats rounded to whole numbers."""
    if mode != "odd":
        names = {"none": "roundeven", "rint": "roundeven", "round": "round", "floor": "floor", "ceil": "ceil", "trunc": "trunc"}
        return intrinsic(e, names[mode], value)
    low = intrinsic(e, "floor", value)
    half = binary(e, "fmul", low, constant(value.type, 0.5))
    even = fcmp(e, "oeq", intrinsic(e, "floor", half), half)
    up = binary(e, "and", even, fcmp(e, "one", low, value))
    return select(e, up, binary(e, "fadd", low, constant(value.type, 1)), low)


def _float_to_integer(e: Emitter, value: Value, target: DType, mode: str, width: int) -> Value:
    whole = value if mode == "trunc" else _whole(e, value, mode)
    type = register_type(target, width)
    lanes = "" if width == 1 else f"v{width}"
    source = "f64" if element_of(value.type) == "double" else "f32"
    name = f"llvm.fpto{'s' if target.is_signed else 'u'}i.sat.{lanes}{target.llvm}.{lanes}{source}"
    e.module.declare(name, f"declare {type} @{name}({value.type})")
    out = e.inst(type, f"call {type} @{name}({whole})")
    if target.bits == 8 * target.get_byte():
        return out
    low, high = integer_range(target)
    sign = "s" if target.is_signed else "u"
    return intrinsic(e, f"{sign}min", intrinsic(e, f"{sign}max", out, constant(type, low)), constant(type, high))
