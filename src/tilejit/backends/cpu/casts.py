"""Conversion of lanes between data types, with every rounding mode of the language."""

from __future__ import annotations

from tilejit.backends.cpu.emit import Emitter, Value
from tilejit.backends.cpu.registers import register_element, register_type, round_to
from tilejit.backends.cpu.vector import binary, constant, convert, fcmp, icmp, intrinsic, select
from tilejit.dtypes import BF16, BOOL, FP16, DType, integer_range

MODES = ("none", "rint", "round", "floor", "ceil", "trunc", "odd")
"""Rounding modes by their number in the language."""


def cast_lane(e: Emitter, value: Value, source: DType, target: DType, mode: str, width: int) -> Value:
    """Lanes of `source` (register form) converted to `target`: floats saturate into integers with NaN as 0, integers wrap."""
    if source is target:
        return value
    if target is BOOL:
        zero = constant(value.type, 0)
        return fcmp(e, "une", value, zero) if source.is_float else icmp(e, "ne", value, zero)
    if target.is_float:
        return _to_float(e, value, source, target, width)
    if source.is_float:
        return _float_to_integer(e, value, target, mode, width)
    if source is BOOL:
        return convert(e, "zext", value, register_element(target))
    if source.bits == target.bits:
        return value
    op = "trunc" if target.bits < source.bits else "sext" if source.is_signed else "zext"
    return convert(e, op, value, register_element(target))


def _to_float(e: Emitter, value: Value, source: DType, target: DType, width: int) -> Value:
    if not source.is_float:
        value = convert(e, "sitofp" if source.is_signed else "uitofp", value, "float")
    return round_to(e, target, value)


def _rounded(e: Emitter, value: Value, mode: str) -> Value:
    return intrinsic(e, {"rint": "roundeven", "floor": "floor", "ceil": "ceil"}.get(mode, "trunc"), value)


def _float_to_integer(e: Emitter, value: Value, target: DType, mode: str, width: int) -> Value:
    name = "fptosi.sat" if target.is_signed else "fptoui.sat"
    rounded = _rounded(e, value, mode)
    type = register_type(target, width)
    suffix = f"{'' if width == 1 else f'v{width}'}i{target.bits}.{'' if width == 1 else f'v{width}'}f32"
    full = f"llvm.{name}.{suffix}"
    e.module.declare(full, f"declare {type} @{full}({rounded.type})")
    return e.inst(type, f"call {type} @{full}({rounded})")
