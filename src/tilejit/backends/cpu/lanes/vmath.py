"""Mathematical functions on float and double lanes, as internal LLVM functions, one per function and width.

Errors against the exact value: exp, log, tanh, sin, cos, pow at most 2 ULP, sigmoid and erf at most 3 ULP, fmod exact, over all
floats including subnormals; infinities, NaN and signed zeros as in IEEE 754. A precise module has the slower functions of
vmath_precise instead, within 1 ULP. Functions of double lanes are within 2 ULP, fmod exact, in all modules. The polynomials come from
scripts/fit_polynomials.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilejit.backends.cpu.lanes import coefficients as c
from tilejit.backends.cpu.lanes import vmath_double, vmath_double_pairs, vmath_precise
from tilejit.backends.cpu.lanes.vmath_blocks import MAGIC, at_least, at_most, bits_of, fabs, fma, log_ends, lookup, polynomial, scale
from tilejit.backends.cpu.lanes.vmath_wide import fmod, power, trigonometric
from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.backends.cpu.llvm.vector import binary, constant, convert, element_of, fcmp, icmp, intrinsic, select, unary, width_of

_INF = float("inf")
_LOG2E = 1.4426950408889634


_INLINE, _OUTLINE = "alwaysinline nounwind", "noinline nounwind"


@dataclass(frozen=True, slots=True)
class Function:
    """A function of lanes: its body on floats in fast modules, in precise ones where that is another, its body on doubles, and whether it is inlined."""

    name: str
    fast: Callable[..., Value]
    double: Callable[..., Value]
    precise: Callable[..., Value] | None = None
    inline: bool = True


def call(e: Emitter, function: Function, operands: Sequence[Value]) -> Value:
    """The function of these lanes; it is added to the module when it is first used."""
    type = operands[0].type
    double = element_of(type) == "double"
    name = f"vm.{function.name}.{width_of(type)}" + (".double" if double else "")
    if name not in e.module.functions:
        precise = function.precise if e.module.precise and not double else None
        body = function.double if double else precise or function.fast
        params = [Value(f"%x{i}", type) for i in range(len(operands))]
        inner = Emitter(e.module, name, type, params, _INLINE if function.inline and precise is None else _OUTLINE, "internal")
        inner.void(f"ret {body(inner, *params)}")
        inner.finish()
    return e.inst(type, f"call {type} @{name}({', '.join(map(str, operands))})")


# exp, log and what rests on exp -----------------------------------------------------------------------------------------


def _exp_parts(e: Emitter, x: Value) -> tuple[Value, Value]:
    """exp(x) = p * 2**n for x in a range where n is small: (p, n as float)."""
    magic = constant(x.type, MAGIC)
    n = binary(e, "fsub", fma(e, x, constant(x.type, _LOG2E), magic), magic)
    r = fma(e, n, constant(x.type, -c.LN2[0]), x)
    r = fma(e, n, constant(x.type, -c.LN2[1]), r)
    tail = fma(e, polynomial(e, r, c.EXP), binary(e, "fmul", r, r), r)
    return binary(e, "fadd", tail, constant(x.type, 1)), n


def _exp(e: Emitter, x: Value) -> Value:
    # Past these bounds the result is 0 or infinity; NaN passes both clamps.
    p, n = _exp_parts(e, at_most(e, at_least(e, x, -104.0), 89.0))
    return scale(e, p, n)


def _exp_bounded(e: Emitter, x: Value) -> Value:
    """exp(x) for x in [-87, 88], where the result is normal."""
    p, n = _exp_parts(e, x)
    count = convert(e, "fptosi", n, "i32")
    return convert(e, "bitcast", binary(e, "add", bits_of(e, p), binary(e, "shl", count, constant(count.type, 23))), "float")


def _log(e: Emitter, x: Value) -> Value:
    tiny = fcmp(e, "olt", x, constant(x.type, 2.0**-126))
    normal = select(e, tiny, binary(e, "fmul", x, constant(x.type, 2.0**23)), x)
    bits = bits_of(e, normal)
    # The mantissa is taken in [sqrt(1/2), sqrt(2)), so that log is small when the exponent is 0.
    exponent = binary(e, "ashr", binary(e, "sub", bits, constant(bits.type, 0x3F3504F3)), constant(bits.type, 23))
    mantissa = convert(e, "bitcast", binary(e, "sub", bits, binary(e, "shl", exponent, constant(bits.type, 23))), "float")
    exponent = binary(e, "sub", exponent, select(e, tiny, constant(bits.type, 23), constant(bits.type, 0)))
    n = convert(e, "sitofp", exponent, "float")
    f = binary(e, "fsub", mantissa, constant(x.type, 1))
    square = binary(e, "fmul", f, f)
    tail = binary(e, "fmul", binary(e, "fmul", square, f), polynomial(e, f, c.LOG))
    tail = fma(e, n, constant(x.type, c.LN2[1]), tail)
    tail = fma(e, square, constant(x.type, -0.5), tail)
    return log_ends(e, x, fma(e, n, constant(x.type, c.LN2[0]), binary(e, "fadd", f, tail)))


def _tanh(e: Emitter, x: Value) -> Value:
    size = fabs(e, x)
    one = constant(x.type, 1)
    # From 9.02 on tanh rounds to 1.
    grown = _exp_bounded(e, binary(e, "fmul", at_most(e, size, 10.0), constant(x.type, 2)))
    large = binary(e, "fsub", one, binary(e, "fdiv", constant(x.type, 2), binary(e, "fadd", grown, one)))
    square = binary(e, "fmul", x, x)
    small = fma(e, binary(e, "fmul", x, square), polynomial(e, square, c.TANH), x)
    out = select(e, fcmp(e, "olt", size, constant(x.type, 0.625)), small, large)
    return select(e, fcmp(e, "uno", x, x), x, intrinsic(e, "copysign", out, x))


def _sigmoid(e: Emitter, x: Value) -> Value:
    one = constant(x.type, 1)
    shrunk = _exp(e, unary(e, "fneg", fabs(e, x)))
    top = select(e, fcmp(e, "olt", x, constant(x.type, 0)), shrunk, one)
    return binary(e, "fdiv", top, binary(e, "fadd", shrunk, one))


def _erf(e: Emitter, x: Value) -> Value:
    size = at_most(e, fabs(e, x), c.ERF_LIMIT)
    magic = constant(x.type, MAGIC)
    shifted = fma(e, size, constant(x.type, 1 / c.ERF_STEP), magic)
    u = fma(e, binary(e, "fsub", shifted, magic), constant(x.type, -c.ERF_STEP), size)
    # The number of the nearest centre lies in the low bits.
    index = bits_of(e, shifted)
    out = lookup(e, c.ERF[-1], index)
    for row in c.ERF[-2::-1]:
        out = fma(e, out, u, lookup(e, row, index))
    return intrinsic(e, "copysign", out, x)


# the functions --------------------------------------------------------------------------------------------------------


EXP = Function("exp", _exp, vmath_double.exp, vmath_precise.exp)
LOG = Function("log", _log, vmath_double.log, vmath_precise.log)
TANH = Function("tanh", _tanh, vmath_double.tanh, vmath_precise.tanh)
SIGMOID = Function("sigmoid", _sigmoid, vmath_double.sigmoid, vmath_precise.sigmoid)
ERF = Function("erf", _erf, vmath_double.erf, vmath_precise.erf)
SIN = Function("sin", trigonometric(0), vmath_double_pairs.trigonometric(0), vmath_precise.sin)
COS = Function("cos", trigonometric(1), vmath_double_pairs.trigonometric(1), vmath_precise.cos)
RSQRT = Function("rsqrt", vmath_precise.rsqrt, vmath_double.rsqrt, inline=False)
"""Of precise modules; otherwise it is a root and a division."""
POW = Function("pow", power, vmath_double_pairs.power, inline=False)
FMOD = Function("fmod", fmod, vmath_double_pairs.fmod, inline=False)


# integers ---------------------------------------------------------------------------------------------------------------


def integer_power(e: Emitter, base: Value, exponent: Value, *, signed: bool) -> Value:
    """base**exponent by squaring, wrapping; a negative exponent gives 1 / base**|exponent| truncated (0 for base 0)."""
    type = base.type
    function = f"vm.ipow.{'i' if signed else 'u'}{element_of(type)[1:]}.{width_of(type)}"
    if function not in e.module.functions:
        _define_integer_power(e, function, type, signed)
    return e.inst(type, f"call {type} @{function}({base}, {exponent})")


def _define_integer_power(e: Emitter, function: str, type: str, signed: bool) -> None:
    base, exponent = Value("%x0", type), Value("%x1", type)
    f = Emitter(e.module, function, type, [base, exponent], _OUTLINE, "internal")
    zero, one = constant(type, 0), constant(type, 1)
    start = exponent
    if signed:
        start = select(f, icmp(f, "slt", exponent, zero), zero, exponent)
    bits = int(element_of(type)[1:])
    out = one
    with f.loop(0, bits, carried=[one, base, start], name="bit") as loop:
        out, square, left = loop.carried
        odd = icmp(f, "ne", binary(f, "and", left, one), zero)
        loop.next = [select(f, odd, binary(f, "mul", out, square), out), binary(f, "mul", square, square), binary(f, "lshr", left, one)]
    out = loop.results[0]
    if signed:
        # 1 and -1 are their own inverses; every other power below 1 truncates to 0.
        odd = icmp(f, "ne", binary(f, "and", exponent, one), zero)
        minus = select(f, odd, constant(type, -1), one)
        inverse = select(f, icmp(f, "eq", base, one), one, select(f, icmp(f, "eq", base, constant(type, -1)), minus, zero))
        out = select(f, icmp(f, "slt", exponent, zero), inverse, out)
    f.void(f"ret {out}")
    f.finish()
