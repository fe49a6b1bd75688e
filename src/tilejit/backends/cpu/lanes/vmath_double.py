"""Functions on double lanes: exp, log, tanh, sigmoid, erf, rsqrt; within 2 ULP of the exact value, in precise modules too.

Series are Taylor's and continued fractions, whose coefficients are exact numbers; what the first term rounds away is carried along
where it would show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from tilejit.backends.cpu.lanes import coefficients as c
from tilejit.backends.cpu.lanes.vmath_blocks import at_least, at_most, bits_of, fabs, fma, log_ends, polynomial
from tilejit.backends.cpu.lanes.vmath_precise import erf_series, looked_up
from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.backends.cpu.llvm.vector import binary, constant, convert, fcmp, intrinsic, select, unary

_INF = float("inf")
_LOG2E = 1.4426950408889634
MAGIC = 1.5 * 2.0**52
"""Adding it rounds a double to an integer, which then lies in the low mantissa bits."""

# exp and what rests on it -----------------------------------------------------------------------------------------------

_EXP = [1 / math.factorial(n + 2) for n in range(12)]


def power_of_two(e: Emitter, n: Value) -> Value:
    """2**n for whole double lanes within the normal range."""
    bits = bits_of(e, binary(e, "fadd", n, constant(n.type, MAGIC + 1023)))
    return convert(e, "bitcast", binary(e, "shl", bits, constant(bits.type, 52)), "double")


def exp_of_sum(e: Emitter, x: Value, rest: Value | None = None) -> Value:
    """exp(x + rest), for a rest far below x."""
    # Past these bounds the result is 0 or infinity; NaN passes both clamps.
    x = at_most(e, at_least(e, x, -746.0), 710.0)
    magic = constant(x.type, MAGIC)
    n = binary(e, "fsub", fma(e, x, constant(x.type, _LOG2E), magic), magic)
    head = fma(e, n, constant(x.type, -c.LN2_WIDE[0]), x)
    tail = binary(e, "fmul", n, constant(x.type, -c.LN2_WIDE[1]))
    if rest is not None:
        tail = binary(e, "fadd", tail, rest)
    r = binary(e, "fadd", head, tail)
    lost = binary(e, "fadd", binary(e, "fsub", head, r), tail)
    small = fma(e, polynomial(e, r, _EXP), binary(e, "fmul", r, r), lost)
    grown = binary(e, "fadd", binary(e, "fadd", r, small), constant(x.type, 1))
    half = intrinsic(e, "roundeven", binary(e, "fmul", n, constant(x.type, 0.5)))
    out = binary(e, "fmul", grown, power_of_two(e, half))
    return binary(e, "fmul", out, power_of_two(e, binary(e, "fsub", n, half)))


def exp(e: Emitter, x: Value) -> Value:
    return exp_of_sum(e, x)


def sigmoid(e: Emitter, x: Value) -> Value:
    one = constant(x.type, 1)
    shrunk = exp(e, unary(e, "fneg", fabs(e, x)))
    below = fcmp(e, "olt", x, constant(x.type, 0))
    ratio = binary(e, "fdiv", select(e, below, shrunk, one), binary(e, "fadd", shrunk, one))
    # s / (1 + s) as s less a part of it, where that part is small.
    small = fma(e, unary(e, "fneg", shrunk), ratio, shrunk)
    return select(e, binary(e, "and", below, fcmp(e, "olt", shrunk, constant(x.type, 0.25))), small, ratio)


def _tangent_fraction(depth: int) -> tuple[list[float], list[float]]:
    """Polynomials (P, Q) in z with P / Q = 3 + z/(5 + z/(7 + …)): tanh(x) = x / (1 + z*Q/P), z = x*x."""
    top, bottom = [2 * depth + 3], [1]
    for odd in range(2 * depth + 1, 1, -2):
        shifted = [0, *bottom]
        size = max(len(top), len(shifted))
        padded = [[*part, *[0] * (size - len(part))] for part in (top, shifted)]
        top, bottom = [odd * a + b for a, b in zip(*padded, strict=True)], top
    scale = Fraction(1, top[0])
    return [float(scale * number) for number in top], [float(scale * number) for number in bottom]


_TANH_P, _TANH_Q = _tangent_fraction(8)


def tanh(e: Emitter, x: Value) -> Value:
    size = fabs(e, x)
    one = constant(x.type, 1)
    # From 19.06 on tanh rounds to 1.
    grown = exp(e, binary(e, "fmul", at_most(e, size, 22.0), constant(x.type, 2)))
    large = binary(e, "fsub", one, binary(e, "fdiv", constant(x.type, 2), binary(e, "fadd", grown, one)))
    z = binary(e, "fmul", x, x)
    bottom = binary(e, "fmul", z, polynomial(e, z, _TANH_Q))
    ratio = binary(e, "fdiv", bottom, binary(e, "fadd", bottom, polynomial(e, z, _TANH_P)))
    small = fma(e, unary(e, "fneg", size), ratio, size)
    out = select(e, fcmp(e, "olt", size, constant(x.type, 0.55)), small, large)
    return select(e, fcmp(e, "uno", x, x), x, intrinsic(e, "copysign", out, x))


# log --------------------------------------------------------------------------------------------------------------------

_LOG = [2 / (2 * n + 3) for n in range(11)]
_ROOT_BITS = 0x3FE6A09E667F3BCD
"""sqrt(1/2)."""
_ONE_BITS = 1023 << 52


def mantissa_and_exponent(e: Emitter, x: Value) -> tuple[Value, Value]:
    """x = m * 2**n with m between sqrt(1/2) and sqrt(2), both as double lanes, for positive finite x."""
    tiny = fcmp(e, "olt", x, constant(x.type, 2.0**-1022))
    bits = bits_of(e, select(e, tiny, binary(e, "fmul", x, constant(x.type, 2.0**54)), x))
    biased = binary(e, "lshr", binary(e, "add", bits, constant(bits.type, _ONE_BITS - _ROOT_BITS)), constant(bits.type, 52))
    mantissa = binary(e, "sub", bits, binary(e, "shl", biased, constant(bits.type, 52)))
    mantissa = convert(e, "bitcast", binary(e, "add", mantissa, constant(bits.type, _ONE_BITS)), "double")
    # A small integer in the low bits of 2**52 is that number and 2**52.
    whole = convert(e, "bitcast", binary(e, "or", biased, constant(bits.type, 0x4330000000000000)), "double")
    shift = select(e, tiny, constant(x.type, 2.0**52 + 1023 + 54), constant(x.type, 2.0**52 + 1023))
    return mantissa, binary(e, "fsub", whole, shift)


def log(e: Emitter, x: Value) -> Value:
    mantissa, n = mantissa_and_exponent(e, x)
    f = binary(e, "fsub", mantissa, constant(x.type, 1))
    s = binary(e, "fdiv", f, binary(e, "fadd", f, constant(x.type, 2)))
    z = binary(e, "fmul", s, s)
    half = binary(e, "fmul", binary(e, "fmul", f, f), constant(x.type, 0.5))
    # log(1 + f) = f - half + s*(half + z*P(z)).
    tail = binary(e, "fmul", s, fma(e, z, polynomial(e, z, _LOG), half))
    tail = fma(e, n, constant(x.type, c.LN2_WIDE[1]), tail)
    near = binary(e, "fsub", f, binary(e, "fsub", half, tail))
    return log_ends(e, x, fma(e, n, constant(x.type, c.LN2_WIDE[0]), near))


# erf --------------------------------------------------------------------------------------------------------------------

_CENTRES, _STEP, _TERMS = 64, 0.125, 13
_SLOPE = 2 / math.sqrt(math.pi)
_NEAR_ZERO = [_SLOPE * (-1.0) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(1, 15)]


def erf(e: Emitter, x: Value) -> Value:
    size = fabs(e, x)
    z = binary(e, "fmul", x, x)
    # x and what it lacks of 2/sqrt(pi) x.
    small = fma(e, size, fma(e, z, polynomial(e, z, _NEAR_ZERO), constant(x.type, _SLOPE - 1)), size)
    # From 5.93 on erf rounds to 1.
    held = at_most(e, size, 6.0)
    shifted = fma(e, held, constant(x.type, 1 / _STEP), constant(x.type, MAGIC))
    u = fma(e, binary(e, "fsub", shifted, constant(x.type, MAGIC)), constant(x.type, -_STEP), held)
    index = bits_of(e, shifted)
    rows = [erf_series(number * _STEP, _TERMS) for number in range(_CENTRES)]
    large = looked_up(e, "vm.erf.double", rows, index, _TERMS)
    for term in range(_TERMS - 1, -1, -1):
        large = fma(e, large, u, looked_up(e, "vm.erf.double", rows, index, term))
    out = select(e, fcmp(e, "olt", size, constant(x.type, 0.5)), small, large)
    return select(e, fcmp(e, "uno", x, x), x, intrinsic(e, "copysign", out, x))


def rsqrt(e: Emitter, x: Value) -> Value:
    return binary(e, "fdiv", constant(x.type, 1), intrinsic(e, "sqrt", x))


def odd_series(count: int) -> Sequence[float]:
    """Taylor coefficients of sin(r)/r - 1 in r*r, without the first power."""
    return [(-1.0) ** (n + 1) / math.factorial(2 * n + 3) for n in range(count)]


def even_series(count: int) -> Sequence[float]:
    """Taylor coefficients of cos(r) - 1 + r*r/2 in r*r, without the first two powers."""
    return [(-1.0) ** n / math.factorial(2 * n + 4) for n in range(count)]
