"""Elementwise operations on lanes, and the combiners of reductions.

`apply_lane(e, lane, dtype, operands, width)` expects operands in register form (see registers.py) of `dtype` and returns lanes of
`dtype`, or BOOL (`i1`) lanes where the operation is a predicate. No instruction carries fast-math flags: NaN, infinities and
signed zeros mean what IEEE says, integers wrap, and nothing traps. Which row of the op table is which operation stands in rules.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilejit.backends.cpu.lanes import vmath
from tilejit.backends.cpu.lanes.registers import lane_constant, register_element, register_type, round_to
from tilejit.backends.cpu.lanes.vmath_blocks import bits_of
from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.backends.cpu.llvm.vector import binary, constant, convert, fcmp, icmp, intrinsic, select, unary
from tilejit.dtypes import BOOL, DType, integer_range
from tilejit.errors import InternalError

Rule = Callable[..., Value]


@dataclass(frozen=True, slots=True)
class Lane:
    """An operation: what it is on floats, on integers and on flags; None where it has no meaning."""

    name: str
    floats: Rule | None = None
    integers: Rule | None = None
    flags: Rule | None = None
    predicate: bool = False
    """The result is BOOL, whatever the dtype of the operands."""

    def rule(self, dtype: DType) -> Rule:
        found = self.floats if dtype.is_float else self.flags if dtype is BOOL else self.integers
        if found is None:
            raise InternalError(f"no CPU lane rule for {self.name} on {dtype}")
        return found


@dataclass(frozen=True, slots=True)
class Lanes:
    """Where lanes are computed: the function being written, the dtype and the width."""

    e: Emitter
    dtype: DType
    width: int

    def const(self, number: float | int) -> Value:
        return lane_constant(self.dtype, number, self.width)

    def unrounded(self, lane: Lane, *operands: Value) -> Value:
        """Another operation as a step of this one; FP16 and BF16 are rounded once, after the last step."""
        return lane.rule(self.dtype)(self, *operands)


def apply_lane(e: Emitter, lane: Lane, dtype: DType, operands: Sequence[Value], width: int, exact: bool = False) -> Value:
    """Lanes of an operation on operands of `dtype`; `exact`: it never leaves the FP16/BF16 grid, so there is nothing to round."""
    value = lane.rule(dtype)(Lanes(e, dtype, width), *operands)
    return value if exact or lane.predicate else round_to(e, dtype, value)


def _same(name: str, rule: Rule) -> Lane:
    """An operation that is one thing for every dtype."""
    return Lane(name, rule, rule, rule)


# floats -----------------------------------------------------------------------------------------------------------------


def _instruction(op: str) -> Rule:
    return lambda at, a, b: binary(at.e, op, a, b)


def _called(name: str) -> Rule:
    return lambda at, *operands: intrinsic(at.e, name, *operands)


def _function(function: vmath.Function) -> Rule:
    return lambda at, *operands: vmath.call(at.e, function, operands)


def _float_compare(predicate: str) -> Rule:
    return lambda at, a, b: fcmp(at.e, predicate, a, b)


def _float_extreme(predicate: str) -> Rule:
    """max/min that propagate NaN: one native instruction, which returns a when either is NaN, then NaN when b is: a, the sum so far, waits for nothing."""

    def rule(at: Lanes, a: Value, b: Value) -> Value:
        picked = select(at.e, fcmp(at.e, predicate, b, a), b, a)
        # Not b, though that is NaN: LLVM would see one choice of two conditions in it.
        return select(at.e, fcmp(at.e, "uno", b, b), constant(b.type, float("nan")), picked)

    return rule


def _float_relu(at: Lanes, x: Value) -> Value:
    # NaN stays NaN, -0 becomes 0 as max(x, 0) may.
    return select(at.e, fcmp(at.e, "ole", x, at.const(0)), at.const(0), x)


def _leaky(at: Lanes, x: Value, slope: Value) -> Value:
    scaled = at.unrounded(MUL, x, slope)
    zero = at.const(0)
    positive = fcmp(at.e, "ogt", x, zero) if at.dtype.is_float else icmp(at.e, "sgt" if at.dtype.is_signed else "ugt", x, zero)
    return select(at.e, positive, x, scaled)


def _float_remainders(at: Lanes, a: Value, b: Value) -> tuple[Value, Value, Value]:
    """The truncated remainder, whether it is not zero, and whether it must move by b to have b's sign."""
    e = at.e
    rest = vmath.call(e, vmath.FMOD, (a, b))
    nonzero = fcmp(e, "une", rest, at.const(0))
    sides = binary(e, "xor", bits_of(e, rest), bits_of(e, b))
    return rest, nonzero, binary(e, "and", icmp(e, "slt", sides, constant(sides.type, 0)), nonzero)


def _float_floormod(at: Lanes, a: Value, b: Value) -> Value:
    """The remainder with the sign of the divisor."""
    e = at.e
    rest, nonzero, moves = _float_remainders(at, a, b)
    return select(e, moves, binary(e, "fadd", rest, b), select(e, nonzero, rest, intrinsic(e, "copysign", rest, b)))


def _float_floordiv(at: Lanes, a: Value, b: Value) -> Value:
    """Python's `//`: the quotient that belongs to the floored remainder, so that 1.0 // 0.1 is 9."""
    e = at.e
    rest, _, moves = _float_remainders(at, a, b)
    ratio = binary(e, "fdiv", a, b)
    quotient = binary(e, "fdiv", binary(e, "fsub", a, rest), b)
    quotient = select(e, moves, binary(e, "fsub", quotient, at.const(1)), quotient)
    whole = intrinsic(e, "floor", quotient)
    short = fcmp(e, "ogt", binary(e, "fsub", quotient, whole), at.const(0.5))
    whole = select(e, short, binary(e, "fadd", whole, at.const(1)), whole)
    whole = select(e, fcmp(e, "oeq", quotient, at.const(0)), intrinsic(e, "copysign", at.const(0), ratio), whole)
    return select(e, fcmp(e, "oeq", b, at.const(0)), ratio, whole)


def _reciprocal(at: Lanes, x: Value) -> Value:
    return binary(at.e, "fdiv", at.const(1), x)


def _rsqrt(at: Lanes, x: Value) -> Value:
    if at.e.module.precise:
        return vmath.call(at.e, vmath.RSQRT, [x])
    return binary(at.e, "fdiv", at.const(1), intrinsic(at.e, "sqrt", x))


# integers ---------------------------------------------------------------------------------------------------------------


def _signed(at: Lanes, signed: str, unsigned: str) -> str:
    return signed if at.dtype.is_signed else unsigned


def _integer_compare(predicate: str) -> Rule:
    return lambda at, a, b: icmp(at.e, predicate if predicate in ("eq", "ne") else _signed(at, "s", "u") + predicate, a, b)


def _integer_extreme(name: str) -> Rule:
    return lambda at, a, b: intrinsic(at.e, _signed(at, "s", "u") + name, a, b)


def _quotient(at: Lanes, a: Value, b: Value) -> Value:
    """Truncating division that cannot trap: a zero divisor counts as one, MIN / -1 wraps. Up to 32 bits through exact float division."""
    e = at.e
    minus = icmp(e, "eq", b, at.const(-1)) if at.dtype.is_signed else None
    zero = icmp(e, "eq", b, at.const(0))
    safe = select(e, zero if minus is None else binary(e, "or", zero, minus), at.const(1), b)
    bits = at.dtype.bits
    if bits == 64 or at.width == 1:
        out = binary(e, _signed(at, "sdiv", "udiv"), a, safe)
    else:
        wide = "float" if bits <= 16 else "double"
        into, back = _signed(at, "sitofp", "uitofp"), _signed(at, "fptosi", "fptoui")
        ratio = binary(e, "fdiv", convert(e, into, a, wide), convert(e, into, safe, wide))
        out = convert(e, back, ratio, register_element(at.dtype))
    return out if minus is None else select(e, minus, binary(e, "sub", at.const(0), a), out)


def _remainder(at: Lanes, a: Value, b: Value) -> Value:
    """Truncated remainder (sign of the dividend)."""
    rest = binary(at.e, "sub", a, binary(at.e, "mul", _quotient(at, a, b), b))
    return select(at.e, icmp(at.e, "eq", b, at.const(0)), at.const(0), rest)


def _floor_adjust(at: Lanes, rest: Value, b: Value) -> Value:
    """Lanes where floored and truncated division differ: a remainder whose sign is not the divisor's."""
    opposite = icmp(at.e, "slt", binary(at.e, "xor", rest, b), at.const(0))
    return binary(at.e, "and", opposite, icmp(at.e, "ne", rest, at.const(0)))


def _floor_quotient(at: Lanes, a: Value, b: Value) -> Value:
    quotient = _quotient(at, a, b)
    if not at.dtype.is_signed:
        return quotient
    rest = binary(at.e, "sub", a, binary(at.e, "mul", quotient, b))
    differs = binary(at.e, "and", _floor_adjust(at, rest, b), icmp(at.e, "ne", b, at.const(0)))
    return select(at.e, differs, binary(at.e, "sub", quotient, at.const(1)), quotient)


def _floor_remainder(at: Lanes, a: Value, b: Value) -> Value:
    rest = _remainder(at, a, b)
    if not at.dtype.is_signed:
        return rest
    return select(at.e, _floor_adjust(at, rest, b), binary(at.e, "add", rest, b), rest)


def _shift(at: Lanes, op: str, a: Value, by: Value) -> Value:
    """Shifts by the width or more give 0, or the sign for an arithmetic right shift. A negative count counts as too large."""
    e, bits = at.e, at.dtype.bits
    inside = icmp(e, "ult", by, at.const(bits))
    if op == "ashr":
        return binary(e, op, a, select(e, inside, by, at.const(bits - 1)))
    return select(e, inside, binary(e, op, a, select(e, inside, by, at.const(0))), at.const(0))


def _integer_power(at: Lanes, base: Value, exponent: Value) -> Value:
    """Powers by squaring, wrapping; a negative exponent gives the truncated quotient of 1 by the power."""
    return vmath.integer_power(at.e, base, exponent, signed=at.dtype.is_signed)


def _integer_absolute(at: Lanes, x: Value) -> Value:
    return intrinsic(at.e, "abs", x, extra=("i1 false",)) if at.dtype.is_signed else x


# flags ------------------------------------------------------------------------------------------------------------------


def _flip(at: Lanes, x: Value) -> Value:
    return binary(at.e, "xor", x, constant(x.type, True))


def _no_fraction(at: Lanes, x: Value) -> Value:
    return x


# the operations ---------------------------------------------------------------------------------------------------------


def _comparison(name: str, ordered: str, unsigned: str) -> Lane:
    return Lane(name, _float_compare(ordered), _integer_compare(name), lambda at, a, b: icmp(at.e, unsigned, a, b), predicate=True)


def _float_only(name: str, rule: Rule) -> Lane:
    return Lane(name, rule)


def _bits(name: str) -> Lane:
    return Lane(name, None, _instruction(name), _instruction(name))


ADD = Lane("add", _instruction("fadd"), _instruction("add"), _instruction("or"))
SUB = Lane("sub", _instruction("fsub"), _instruction("sub"))
MUL = Lane("mul", _instruction("fmul"), _instruction("mul"), _instruction("and"))
DIV = Lane("div", _instruction("fdiv"), _quotient)
FLOORDIV = Lane("floordiv", _float_floordiv, _floor_quotient)
MOD = Lane("mod", _float_floormod, _floor_remainder)
FMOD = Lane("fmod", _function(vmath.FMOD), _remainder)
NEG = Lane("neg", lambda at, x: unary(at.e, "fneg", x), lambda at, x: binary(at.e, "sub", at.const(0), x))
ABS = Lane("abs", _called("fabs"), _integer_absolute)
MAXIMUM = Lane("maximum", _float_extreme("ogt"), _integer_extreme("max"), _instruction("or"))
MINIMUM = Lane("minimum", _float_extreme("olt"), _integer_extreme("min"), _instruction("and"))
RELU = Lane("relu", _float_relu, lambda at, x: at.unrounded(MAXIMUM, x, at.const(0)))
FLOOR = Lane("floor", _called("floor"), _no_fraction)
CEIL = Lane("ceil", _called("ceil"), _no_fraction)
ROUND = Lane("round", _called("roundeven"), _no_fraction)
POW = Lane("pow", _function(vmath.POW), _integer_power)
SQRT = _float_only("sqrt", _called("sqrt"))
RSQRT = _float_only("rsqrt", _rsqrt)
RECIP = _float_only("recip", _reciprocal)
EXP, LOG, SIN, COS, TANH, ERF, SIGMOID = (
    _float_only(function.name, _function(function)) for function in (vmath.EXP, vmath.LOG, vmath.SIN, vmath.COS, vmath.TANH, vmath.ERF, vmath.SIGMOID)
)
AND, OR, XOR = (_bits(name) for name in ("and", "or", "xor"))
NOT = Lane("not", None, lambda at, x: binary(at.e, "xor", x, at.const(-1)), _flip)
SHL = Lane("shl", None, lambda at, a, b: _shift(at, "shl", a, b))
SHR = Lane("shr", None, lambda at, a, b: _shift(at, _signed(at, "ashr", "lshr"), a, b))
EQ, NE = _comparison("eq", "oeq", "eq"), _comparison("ne", "une", "ne")
LT, LE = _comparison("lt", "olt", "ult"), _comparison("le", "ole", "ule")
GT, GE = _comparison("gt", "ogt", "ugt"), _comparison("ge", "oge", "uge")
COMPARISONS = (EQ, NE, LT, LE, GT, GE)
"""By cmp_type."""
ISNAN = Lane("isnan", lambda at, x: fcmp(at.e, "uno", x, x), lambda at, x: constant(register_type(BOOL, at.width), False), predicate=True)
ADDC = _same("addc", lambda at, a, b, c: at.unrounded(ADD, at.unrounded(ADD, a, b), c))
SUBC = _same("subc", lambda at, a, b, c: at.unrounded(SUB, at.unrounded(SUB, a, b), c))
EXPDIF = _same("expdif", lambda at, a, b: at.unrounded(EXP, at.unrounded(SUB, a, b)))
LEAKY = _same("leaky relu", _leaky)
COPY = _same("copy", lambda at, x: x)
WHERE = _same("where", lambda at, condition, a, b: select(at.e, condition, a, b))
"""The condition is BOOL lanes."""


# reductions -------------------------------------------------------------------------------------------------------------

_COMBINERS = {"sum": ADD, "prod": MUL, "max": MAXIMUM, "min": MINIMUM}


def reduce_init(name: str, dtype: DType, width: int) -> Value:
    """The neutral element of "sum", "prod", "max" or "min" in every lane."""
    if name in ("sum", "prod"):
        return lane_constant(dtype, 0 if name == "sum" else 1, width)
    if dtype.is_float:
        return constant(register_type(dtype, width), float("-inf") if name == "max" else float("inf"))
    low, high = integer_range(dtype)
    return lane_constant(dtype, low if name == "max" else high, width)


def combine(e: Emitter, name: str, dtype: DType, a: Value, b: Value, width: int) -> Value:
    """One step of a reduction. FP16 and BF16 are combined in float: whoever takes the result rounds once."""
    return _COMBINERS[name].rule(dtype)(Lanes(e, dtype, width), a, b)
