"""The functions of vmath within 1 ULP, for `fast_math=False`: computed in double and rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable

from tilejit.backends.cpu.lanes import coefficients as c
from tilejit.backends.cpu.lanes.vmath_blocks import at_least, at_most, fabs, fma, log_ends, polynomial
from tilejit.backends.cpu.lanes.vmath_wide import log2_of_positive, quadrant_in_double, reduced
from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.backends.cpu.llvm.vector import binary, constant, convert, extract, fcmp, intrinsic, literal, select, unary, width_of

_INF = float("inf")
_LOG2E = 1.4426950408889634


def _widened(body: Callable[[Emitter, Value], Value]) -> Callable[[Emitter, Value], Value]:
    """A function of double lanes as one of float lanes."""

    def narrow(e: Emitter, x: Value) -> Value:
        return convert(e, "fptrunc", body(e, convert(e, "fpext", x, "double")), "float")

    return narrow


def _exp_wide(e: Emitter, x: Value) -> Value:
    """exp of double lanes in the range where its float is neither 0 nor infinite, and a little past it; NaN stays."""
    power = at_most(e, at_least(e, binary(e, "fmul", x, constant(x.type, _LOG2E)), -300.0), 300.0)
    whole = intrinsic(e, "roundeven", power)
    grown = polynomial(e, binary(e, "fsub", power, whole), c.EXP2_WIDE)
    count = unary(e, "freeze", convert(e, "fptosi", whole, "i64"))
    factor = binary(e, "shl", binary(e, "add", count, constant(count.type, 1023)), constant(count.type, 52))
    return binary(e, "fmul", grown, convert(e, "bitcast", factor, "double"))


def _log_wide(e: Emitter, x: Value) -> Value:
    return log_ends(e, x, binary(e, "fmul", log2_of_positive(e, x), constant(x.type, math.log(2))))


def _tanh_wide(e: Emitter, x: Value) -> Value:
    one = constant(x.type, 1)
    # From 9.02 on tanh rounds to 1.
    grown = _exp_wide(e, binary(e, "fmul", at_most(e, fabs(e, x), 20.0), constant(x.type, 2)))
    large = binary(e, "fdiv", binary(e, "fsub", grown, one), binary(e, "fadd", grown, one))
    square = binary(e, "fmul", x, x)
    small = fma(e, binary(e, "fmul", x, square), polynomial(e, square, (-1 / 3, 2 / 15, -17 / 315)), x)
    near = fcmp(e, "olt", fabs(e, x), constant(x.type, 2.0**-5))
    out = intrinsic(e, "copysign", select(e, near, small, large), x)
    return select(e, fcmp(e, "uno", x, x), x, out)


def _sigmoid_wide(e: Emitter, x: Value) -> Value:
    one = constant(x.type, 1)
    return binary(e, "fdiv", one, binary(e, "fadd", _exp_wide(e, unary(e, "fneg", x)), one))


def _rsqrt_wide(e: Emitter, x: Value) -> Value:
    return binary(e, "fdiv", constant(x.type, 1), intrinsic(e, "sqrt", x))


_CENTRES = 16
_STEP = 0.25
_TERMS = 12


def erf_series(centre: float, terms: int) -> list[float]:
    """Taylor coefficients of erf at `centre`."""
    # The slope g satisfies g' = -2 (centre + u) g, which gives its coefficients one after the other.
    slope = [2 / math.sqrt(math.pi) * math.exp(-centre * centre)]
    for n in range(terms - 1):
        before = slope[n - 1] if n else 0.0
        slope.append((-2 * centre * slope[n] - 2 * before) / (n + 1))
    return [math.erf(centre), *(value / (n + 1) for n, value in enumerate(slope))]


def _erf_wide(e: Emitter, x: Value) -> Value:
    # From 3.92 on erf rounds to 1.
    size = at_most(e, fabs(e, x), 3.95)
    centre = intrinsic(e, "roundeven", binary(e, "fmul", at_most(e, size, _STEP * (_CENTRES - 1)), constant(x.type, 1 / _STEP)))
    u = fma(e, centre, constant(x.type, -_STEP), size)
    index = unary(e, "freeze", convert(e, "fptosi", centre, "i64"))
    rows = [erf_series(number * _STEP, _TERMS) for number in range(_CENTRES)]
    out = looked_up(e, "vm.erf", rows, index, _TERMS)
    for term in range(_TERMS - 1, -1, -1):
        out = fma(e, out, u, looked_up(e, "vm.erf", rows, index, term))
    return select(e, fcmp(e, "uno", x, x), x, intrinsic(e, "copysign", out, x))


def looked_up(e: Emitter, name: str, rows: list[list[float]], index: Value, column: int) -> Value:
    """rows[index][column] in every lane; any index is taken modulo the number of rows, a power of two."""
    numbers = [number for row in rows for number in row]
    entries = ", ".join(f"double {literal('double', number)}" for number in numbers)
    e.module.declare(name, f"@{name} = internal unnamed_addr constant [{len(numbers)} x double] [{entries}], align 64")
    place = binary(e, "and", index, constant(index.type, len(rows) - 1))
    place = binary(e, "add", binary(e, "mul", place, constant(index.type, len(rows[0]))), constant(index.type, column))
    width = width_of(index.type)
    out = Value("poison", f"<{width} x double>" if width > 1 else "double")
    for lane in range(width):
        one = e.load("double", e.offset(Value(f"@{name}", "ptr"), extract(e, place, lane), "double"), 8)
        out = one if width == 1 else e.inst(out.type, f"insertelement {out}, {one}, i64 {lane}")
    return out


def _trigonometric(quarter: int) -> Callable[[Emitter, Value], Value]:
    def body(e: Emitter, x: Value) -> Value:
        rest, count = reduced(e, x)
        return quadrant_in_double(e, rest, binary(e, "add", count, constant(count.type, quarter)), x if quarter == 0 else None)

    return body


exp = _widened(_exp_wide)
log = _widened(_log_wide)
tanh = _widened(_tanh_wide)
sigmoid = _widened(_sigmoid_wide)
erf = _widened(_erf_wide)
rsqrt = _widened(_rsqrt_wide)
sin = _trigonometric(0)
cos = _trigonometric(1)
