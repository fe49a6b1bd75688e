"""Elementwise operations on lanes: every elementwise name of the op table, and the combiners of reductions.

`apply_lane(e, name, dtype, operands, width)` expects operands in register form (see registers.py) of `dtype` and returns lanes of
`dtype`, except for the names in `PREDICATES`, which return BOOL (`i1`) lanes. No instruction carries fast-math flags: NaN,
infinities and signed zeros mean what IEEE says, integers wrap, and nothing traps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilejit.backends.cpu.lanes import vmath
from tilejit.backends.cpu.lanes.registers import (
    lane_constant,
    load_lanes,
    load_strided,
    register_element,
    register_type,
    round_to,
    store_lanes,
    store_strided,
)
from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.backends.cpu.llvm.vector import binary, constant, convert, extract, fcmp, icmp, intrinsic, select, shuffle, splat, unary
from tilejit.dtypes import BOOL, DType, integer_range
from tilejit.errors import InternalError

__all__ = [
    "PREDICATES", "apply_lane", "combine", "horizontal", "lane_constant", "load_lanes", "load_strided", "reduce_init",
    "register_element", "register_type", "round_to", "splat", "store_lanes", "store_strided",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lanes:
    """Where lanes are computed: the function being written, the dtype and the width."""

    e: Emitter
    dtype: DType
    width: int

    def const(self, number: float | int) -> Value:
        return lane_constant(self.dtype, number, self.width)

    def unrounded(self, name: str, *operands: Value) -> Value:
        """Another rule as a step of this one; FP16 and BF16 are rounded once, after the last step."""
        return _rule(name, self.dtype)(self, *operands)


Rule = Callable[..., Value]

PREDICATES = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "isnan"})
"""Lanes whose result is BOOL, whatever the dtype of the operands."""

_EXACT = frozenset({"neg", "abs", "floor", "ceil", "round", "trunc", "maximum", "minimum", "where", "relu", "copy"}) | PREDICATES
"""Lanes that never leave the FP16/BF16 grid: no rounding afterwards."""


def apply_lane(e: Emitter, name: str, dtype: DType, operands: Sequence[Value], width: int) -> Value:
    """Lanes of the elementwise operation `name` on operands of `dtype`."""
    value = _rule(name, dtype)(Lanes(e, dtype, width), *operands)
    return value if name in _EXACT else round_to(e, dtype, value)


def _rule(name: str, dtype: DType) -> Rule:
    table = _FLOAT if dtype.is_float else _BOOL if dtype is BOOL else _INTEGER
    rule = table.get(name) or _ANY.get(name)
    if rule is None:
        raise InternalError(f"no CPU lane rule for {name} on {dtype}")
    return rule


# floats -----------------------------------------------------------------------------------------------------------------


def _instruction(op: str) -> Rule:
    return lambda at, a, b: binary(at.e, op, a, b)


def _called(name: str) -> Rule:
    return lambda at, *operands: intrinsic(at.e, name, *operands)


def _poly(name: str) -> Rule:
    return lambda at, *operands: vmath.call(at.e, name, operands)


def _float_compare(predicate: str) -> Rule:
    return lambda at, a, b: fcmp(at.e, predicate, a, b)


def _float_extreme(predicate: str) -> Rule:
    """max/min that propagate NaN: one native instruction (which returns b when either is NaN), then a when a is NaN."""

    def rule(at: Lanes, a: Value, b: Value) -> Value:
        picked = select(at.e, fcmp(at.e, predicate, a, b), a, b)
        return select(at.e, fcmp(at.e, "uno", a, a), a, picked)

    return rule


def _float_relu(at: Lanes, x: Value) -> Value:
    # NaN stays NaN, -0 becomes 0 as max(x, 0) may.
    return select(at.e, fcmp(at.e, "ole", x, at.const(0)), at.const(0), x)


def _leaky(at: Lanes, x: Value, slope: Value) -> Value:
    scaled = at.unrounded("mul", x, slope)
    zero = at.const(0)
    positive = fcmp(at.e, "ogt", x, zero) if at.dtype.is_float else icmp(at.e, "sgt" if at.dtype.is_signed else "ugt", x, zero)
    return select(at.e, positive, x, scaled)


def _float_remainders(at: Lanes, a: Value, b: Value) -> tuple[Value, Value, Value]:
    """The truncated remainder, whether it is not zero, and whether it must move by b to have b's sign."""
    e = at.e
    rest = vmath.call(e, "fmod", (a, b))
    nonzero = fcmp(e, "une", rest, at.const(0))
    sides = binary(e, "xor", convert(e, "bitcast", rest, "i32"), convert(e, "bitcast", b, "i32"))
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
        return vmath.call(at.e, "rsqrt", [x])
    return binary(at.e, "fdiv", at.const(1), intrinsic(at.e, "sqrt", x))


_FLOAT: dict[str, Rule] = {
    "add": _instruction("fadd"),
    "sub": _instruction("fsub"),
    "mul": _instruction("fmul"),
    "div": _instruction("fdiv"),
    "floordiv": _float_floordiv,
    "mod": _float_floormod,
    "rem": _float_floormod,
    "fmod": _poly("fmod"),
    "neg": lambda at, x: unary(at.e, "fneg", x),
    "abs": _called("fabs"),
    "sqrt": _called("sqrt"),
    "rsqrt": _rsqrt,
    "recip": _reciprocal,
    "floor": _called("floor"),
    "ceil": _called("ceil"),
    "trunc": _called("trunc"),
    "round": _called("roundeven"),
    "maximum": _float_extreme("ogt"),
    "minimum": _float_extreme("olt"),
    "relu": _float_relu,
    "eq": _float_compare("oeq"),
    "ne": _float_compare("une"),
    "lt": _float_compare("olt"),
    "le": _float_compare("ole"),
    "gt": _float_compare("ogt"),
    "ge": _float_compare("oge"),
    "isnan": lambda at, x: fcmp(at.e, "uno", x, x),
    **{name: _poly(name) for name in ("exp", "log", "sin", "cos", "tanh", "erf", "sigmoid", "pow")},
}


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


_INTEGER: dict[str, Rule] = {
    "add": _instruction("add"),
    "sub": _instruction("sub"),
    "mul": _instruction("mul"),
    "div": _quotient,
    "floordiv": _floor_quotient,
    "fmod": _remainder,
    "mod": _floor_remainder,
    "rem": _floor_remainder,
    "neg": lambda at, x: binary(at.e, "sub", at.const(0), x),
    "abs": _integer_absolute,
    "maximum": _integer_extreme("max"),
    "minimum": _integer_extreme("min"),
    "relu": lambda at, x: at.unrounded("maximum", x, at.const(0)),
    "floor": lambda at, x: x,
    "ceil": lambda at, x: x,
    "trunc": lambda at, x: x,
    "round": lambda at, x: x,
    "and_": _instruction("and"),
    "or_": _instruction("or"),
    "xor": _instruction("xor"),
    "not_": lambda at, x: binary(at.e, "xor", x, at.const(-1)),
    "shl": lambda at, a, b: _shift(at, "shl", a, b),
    "shr": lambda at, a, b: _shift(at, _signed(at, "ashr", "lshr"), a, b),
    "pow": _integer_power,
    "isnan": lambda at, x: constant(register_type(BOOL, at.width), False),
    **{name: _integer_compare(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
}


# bool and any -----------------------------------------------------------------------------------------------------------

_BOOL: dict[str, Rule] = {
    "and_": _instruction("and"),
    "or_": _instruction("or"),
    "xor": _instruction("xor"),
    "not_": lambda at, x: binary(at.e, "xor", x, constant(x.type, True)),
    "add": _instruction("or"),
    "mul": _instruction("and"),
    "maximum": _instruction("or"),
    "minimum": _instruction("and"),
    "eq": lambda at, a, b: icmp(at.e, "eq", a, b),
    "ne": lambda at, a, b: icmp(at.e, "ne", a, b),
    "lt": lambda at, a, b: icmp(at.e, "ult", a, b),
    "le": lambda at, a, b: icmp(at.e, "ule", a, b),
    "gt": lambda at, a, b: icmp(at.e, "ugt", a, b),
    "ge": lambda at, a, b: icmp(at.e, "uge", a, b),
    "logical_and": _instruction("and"),
    "logical_or": _instruction("or"),
    "logical_not": lambda at, x: binary(at.e, "xor", x, constant(x.type, True)),
}

_ANY: dict[str, Rule] = {
    "addc": lambda at, a, b, c: at.unrounded("add", at.unrounded("add", a, b), c),
    "subc": lambda at, a, b, c: at.unrounded("sub", at.unrounded("sub", a, b), c),
    "expdif": lambda at, a, b: at.unrounded("exp", at.unrounded("sub", a, b)),
    "lrelu": _leaky,
    "prelu": _leaky,
    "copy": lambda at, x: x,
    "where": lambda at, condition, a, b: select(at.e, condition, a, b),
}
"""Rules that serve every dtype; the condition of `where` is BOOL lanes."""


# reductions -------------------------------------------------------------------------------------------------------------

_COMBINERS = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}


def reduce_init(name: str, dtype: DType, width: int) -> Value:
    """The neutral element of "sum", "prod", "max" or "min" in every lane."""
    if name in ("sum", "prod"):
        return lane_constant(dtype, 0 if name == "sum" else 1, width)
    if dtype.is_float:
        return constant(register_type(dtype, width), float("-inf") if name == "max" else float("inf"))
    low, high = integer_range(dtype)
    return lane_constant(dtype, low if name == "max" else high, width)


def combine(e: Emitter, name: str, dtype: DType, a: Value, b: Value, width: int) -> Value:
    """One step of a reduction. FP16 and BF16 are combined in float: `horizontal` rounds once, at the end."""
    rule = (_FLOAT if dtype.is_float else _BOOL if dtype is BOOL else _INTEGER)[_COMBINERS[name]]
    return rule(Lanes(e, dtype, width), a, b)


def horizontal(e: Emitter, name: str, dtype: DType, value: Value, width: int) -> Value:
    """All lanes of `value` combined into one scalar, by halves, then rounded to `dtype`."""
    while width > 1:
        half = width // 2
        if half == 1:
            low, high = extract(e, value, 0), extract(e, value, 1)
        else:
            low, high = shuffle(e, value, None, range(half)), shuffle(e, value, None, range(half, width))
        value, width = combine(e, name, dtype, low, high, half), half
    return round_to(e, dtype, value)
