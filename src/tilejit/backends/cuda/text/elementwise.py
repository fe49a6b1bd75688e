"""The texts that elementwise ops and conversions take, on operands that are texts of tiles or scalars in the type they are computed in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilejit.backends.cuda.text.types import DECODED, computed_in, register
from tilejit.backends.cuda.text.writer import Writer
from tilejit.dtypes import BF16, BOOL, FP16, FP32, FP64, INT4, UINT4, DType, integer_range
from tilejit.ops.math import cast_mode
from tilejit.ops.spec import OpSpec

Texts = Sequence[str]
Form = Callable[[Writer, DType, Texts], str]
"""Writes an op: its compute dtype and the texts of its operands."""


def constant(value: float | bool, dtype: DType) -> str:
    """A constant of exactly `dtype`, as an expression that needs no other type to lean on."""
    if dtype is BOOL:
        return f"tl.full((), {1 if value else 0}, tl.int1)"
    if dtype.is_float:
        return f"tl.full((), {literal(float(value))}, {register(computed_in(dtype))})"
    low, high = integer_range(dtype)
    wrapped = (int(value) - low) % (high - low + 1) + low
    text = "-9223372036854775807 - 1" if wrapped == -(1 << 63) else str(wrapped)
    return f"tl.full((), {text}, {register(dtype)})"


def literal(value: float) -> str:
    """A float in the text."""
    if math.isnan(value):
        return 'float("nan")'
    return ('float("inf")' if value > 0 else 'float("-inf")') if math.isinf(value) else repr(value)


# conversions ------------------------------------------------------------------------------------------------------------


def widen(out: Writer, text: str, dtype: DType) -> str:
    """A value as it is computed with: floats in FP32."""
    if dtype in DECODED:
        return f"{out.helper(f'{DECODED[dtype]}_to_f32')}({text})"
    return f"{text}.to(tl.float32)" if dtype in (FP16, BF16) else text


def narrow(out: Writer, text: str, dtype: DType) -> str:
    """A value in the type it is computed in, rounded to nearest even to the type it is held in; 4-bit integers wrap."""
    if dtype in DECODED:
        return f"{out.helper(f'f32_to_{DECODED[dtype]}')}({text})"
    if dtype in (FP16, BF16):
        return f"({text}).to({register(dtype)})"
    if dtype is INT4:
        return f"((({text}) << 4).to(tl.int8) >> 4)"
    return f"(({text}) & 15).to(tl.uint8)" if dtype is UINT4 else text


def convert(out: Writer, text: str, source: DType, target: DType, mode: str = "trunc") -> str:
    """A held value of `source` in the compute form of `target` (FP32 for narrow floats): what ops/numbers.py calls convert, before the last rounding."""
    if source is target:
        return widen(out, text, source)
    if target is BOOL:
        return f"({widen(out, text, source)} != 0)"
    if target.is_float:
        if target is FP64 or source is FP64:
            text = widen(out, text, source) if source.is_float else text
            return rounded(out, f"{text}.to({register(computed_in(target))})", target)
        wide = widen(out, text, source) if source.is_float else f"{text}.to(tl.float32)"
        return rounded(out, wide, target)
    if source.is_float:
        whole = (_ROUND_DOUBLE if source is FP64 else _ROUND)[mode](out, widen(out, text, source))
        return saturated(out, whole, target)
    return narrow(out, f"{text}.to({register(target)})", target)


def rounded(out: Writer, wide: str, target: DType) -> str:
    """An FP32 value rounded to a narrower float, still in FP32."""
    return wide if target in (FP32, FP64) else widen(out, narrow(out, wide, target), target)


def saturated(out: Writer, whole: str, target: DType) -> str:
    if target in (INT4, UINT4):
        low, high = integer_range(target)
        name = out.let("whole", whole)
        whole = f"tl.minimum(tl.maximum(tl.where({name} != {name}, 0.0, {name}), {float(low)}), {float(high)})"
    return f"{out.helper('to_' + register(target)[3:])}({whole})"


_ROUND: dict[str, Callable[[Writer, str], str]] = {
    "none": lambda out, x: f"libdevice.rint({x})",
    "rint": lambda out, x: f"libdevice.rint({x})",
    "round": lambda out, x: f"{out.helper('half_away')}({x})",
    "floor": lambda out, x: f"tl.floor({x})",
    "ceil": lambda out, x: f"tl.ceil({x})",
    "trunc": lambda out, x: x,
    "odd": lambda out, x: f"{out.helper('round_to_odd')}({x})",
}


_ROUND_DOUBLE = _ROUND | {"odd": lambda out, x: f"{out.helper('double_to_odd')}({x})"}


def cast(out: Writer, text: str, source: DType, statics: Mapping[str, object]) -> tuple[str, DType]:
    """`pl.cast`: the held value of the target type."""
    target, mode = statics["target_type"], cast_mode(statics.get("mode", "round"))
    assert isinstance(target, DType) and mode is not None
    if source is target:
        return text, target
    if source.is_float and target.is_float:
        wide = widen(out, text, source)
        if FP64 in (source, target):
            return _cast_double(out, wide, source, target, mode), target
        exact = target is FP32 or (target.bits > source.bits and not (source.name == "FP8E8M0" and target is FP16))
        if mode in ("none", "rint") or exact:
            return narrow(out, wide, target), target
        if target is BF16 and mode == "round":
            return f"{out.helper('bf16_half_away')}({wide})", target
        kind = {FP16: "f16", BF16: "bf16"}.get(target) or DECODED[target]
        return f'{out.helper(f"f32_to_{kind}_by_mode")}({wide}, "{mode}")', target
    return held(out, convert(out, text, source, target, mode), target), target


def _cast_double(out: Writer, wide: str, source: DType, target: DType, mode: str) -> str:
    """From and to FP64; what is narrower than FP32 is reached through it, as in the reference."""
    if target is FP64 or mode in ("none", "rint"):
        return f"({wide}).to(tl.float64)" if target is FP64 else narrow(out, f"({wide}).to(tl.float32)", target)
    kind = {FP32: "f32", FP16: "f16", BF16: "bf16"}.get(target) or DECODED[target]
    return f'{out.helper(f"f64_to_{kind}_by_mode")}({wide}, "{mode}")'


def held(out: Writer, computed: str, dtype: DType) -> str:
    """A computed value in the type it is held in."""
    return narrow(out, computed, dtype) if dtype.is_float else computed


# ops --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator between operands, or one that inverts the only one: on narrow integers Triton may give a wider result."""

    symbol: str

    def __call__(self, out: Writer, dtype: DType, args: Texts) -> str:
        if len(args) > 1:
            return "(" + f" {self.symbol} ".join(args) + ")"
        return f"({args[0]} == 0)" if dtype is BOOL else f"({self.symbol}{args[0]})"


def integer(signed: str, unsigned: str, of_floats: Form) -> Form:
    def form(out: Writer, dtype: DType, args: Texts) -> str:
        if dtype.is_float:
            return of_floats(out, dtype, args)
        return f"{out.helper(signed if dtype.kind == 'int' else unsigned)}({', '.join(args)})"

    return form


def call(name: str) -> Form:
    return lambda out, dtype, args: f"{name}({', '.join(args)})"


def helper(name: str) -> Form:
    return lambda out, dtype, args: f"{out.helper(name)}({', '.join(args)})"


def extreme(name: str) -> Form:
    return lambda out, dtype, args: _larger_or_smaller(name, dtype, *args)


def _larger_or_smaller(name: str, dtype: DType, left: str, right: str) -> str:
    return f"tl.{name}({left}, {right}{', propagate_nan=tl.PropagateNan.ALL' if dtype.is_float else ''})"


def combined(combine: str, dtype: DType, left: str, right: str) -> str:
    """Two numbers of a reduction folded into one, in the type they are computed in."""
    sign = {"sum": "+", "prod": "*"}.get(combine)
    text = f"{left} {sign} {right}" if sign is not None else _larger_or_smaller(f"{combine}imum", dtype, left, right)
    return f"({text}).to({register(dtype)})"


def whole(name: str) -> Form:
    """Integers stay as they are."""
    return lambda out, dtype, args: f"{name}({args[0]})" if dtype.is_float else args[0]


def shift(name: str) -> Form:
    def form(out: Writer, dtype: DType, args: Texts) -> str:
        shifts = "unsigned_shift_right" if name == "shift_right" and dtype.kind == "uint" else name
        return f"{out.helper(shifts)}({args[0]}, {args[1]}, {dtype.get_byte() * 8})"

    return form


def quotient(out: Writer, dtype: DType, args: Texts) -> str:
    """A division that rounds once: of doubles it always does."""
    return f"({args[0]} / {args[1]})" if dtype is FP64 else f"tl.div_rn({args[0]}, {args[1]})"


def root(out: Writer, dtype: DType, args: Texts) -> str:
    return f"tl.sqrt({args[0]})" if dtype is FP64 else f"tl.sqrt_rn({args[0]})"


def power(out: Writer, dtype: DType, args: Texts) -> str:
    return call("libdevice.pow" if dtype is FP64 else out.helper("single_pow"))(out, dtype, args)


def hyperbolic(out: Writer, dtype: DType, args: Texts) -> str:
    return call("libdevice.tanh" if dtype is FP64 else out.helper("single_tanh"))(out, dtype, args)


def negated(out: Writer, dtype: DType, args: Texts) -> str:
    return f"({args[0]} * -1.0)" if dtype.is_float else f"(0 - {args[0]}).to({register(dtype)})"


def absolute(out: Writer, dtype: DType, args: Texts) -> str:
    if dtype.is_float:
        return f"tl.abs({args[0]})"
    return args[0] if dtype.kind == "uint" else f"tl.where({args[0]} < 0, 0 - {args[0]}, {args[0]}).to({register(dtype)})"


def relu(out: Writer, dtype: DType, args: Texts) -> str:
    zero = "0.0" if dtype.is_float else constant(0, dtype)
    return extreme("maximum")(out, dtype, [args[0], zero])


def leaky(out: Writer, dtype: DType, args: Texts) -> str:
    return f"tl.where({args[0]} > 0.0, {args[0]}, {args[1]} * {args[0]})"


def fast_expdif(out: Writer, dtype: DType, args: Texts) -> str:
    """e**(a - b) by one multiplication and the hardware's power of two: its error grows with the difference, which 16 bits do not show."""
    return f"tl.exp2(({args[0]} - {args[1]}) * 1.4426950408889634)"


def power_of_difference(out: Writer, dtype: DType, args: Texts) -> str:
    """The same of numbers that are held times log2(e)."""
    return f"tl.exp2({args[0]} - {args[1]})"


COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def apply(out: Writer, row: OpSpec, dtype: DType, args: Texts, statics: Mapping[str, object]) -> str:
    """The text of a row on computed operands, in the compute form of `dtype`."""
    from tilejit.backends.cuda.rules import FORMS

    if "cmp_type" in row.param_names:
        kind = statics.get("cmp_type", 0)
        assert isinstance(kind, int)
        return f"({args[0]} {COMPARISONS[kind]} {args[1]})"
    form = FORMS[row.name]
    text = form(out, dtype, args)
    if isinstance(form, Operator) and dtype.is_integer and dtype.bits < 32:
        text = narrow(out, text, dtype) if dtype.bits < 8 else f"{text}.to({register(dtype)})"
    return text
