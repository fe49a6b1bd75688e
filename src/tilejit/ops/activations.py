"""Activations and other functions that are terms over the core maths: one declaration here gives an op to every target."""

from __future__ import annotations

import math

from tilejit.dtypes import FP32
from tilejit.errors import ArgumentError
from tilejit.ops.dtype_rules import INTEGERS, NUMBERS, floating
from tilejit.ops.facts import Facts
from tilejit.ops.math import abs, binary, cos, erf, exp, floordiv, log, maximum, minimum, mod, pow, sigmoid, sin, tanh, unary
from tilejit.ops.spec import Call, Operand, Static, spell
from tilejit.ops.terms import Term, derived


def _lost(u: Term) -> Term:
    """What 1 + u loses of u, to first order of the logarithm."""
    whole = 1 + u
    return (u - (whole - 1)) / whole


def _log1p(u: Term) -> Term:
    """log(1 + u) for every u: below -1/2 nothing is lost, and far above 1 it does not matter."""
    return log(1 + u) + _lost(minimum(maximum(u, -0.5), 1e30))


def _softplus(x: Term) -> Term:
    power = exp(-abs(x))
    return log(1 + power) + _lost(power) + maximum(x, 0)


@derived(_softplus, dtypes=NUMBERS, spellings=unary("softplus"), result=floating)
def softplus(input: Operand) -> object:
    """log(1 + e**x) for every element, accurate and without overflow."""


@derived(lambda x: x * sigmoid(x), dtypes=NUMBERS, spellings=unary("silu"), result=floating)
def silu(input: Operand) -> object:
    """x / (1 + e**-x) for every element."""


def _check_approximation(call: Call) -> None:
    if call.arg("approximate") not in ("none", "tanh"):
        raise ArgumentError(f"gelu has no approximation {call.arg('approximate')!r}", help="'none' or 'tanh'")


def _gelu(x: Term, approximate: str) -> Term:
    half = 0.5 * x
    if approximate == "tanh":
        return half * (1 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))
    return half * (1 + erf(math.sqrt(0.5) * x))


_GELU = "(input, approximate='none')"


@derived(
    _gelu,
    dtypes=NUMBERS,
    spellings=spell("gelu", pl=_GELU, tensor=_GELU, tile="(tile, approximate='none')"),
    result=floating,
    takes=("approximate",),
    check=_check_approximation,
)
def gelu(input: Operand, approximate: Static = "none") -> object:
    """x times the part of the normal distribution below x, for every element; approximate='tanh' is the usual cheaper form."""


_CLAMP = "(input, low, high)"


@derived(
    lambda x, low, high: minimum(maximum(x, low), high),
    dtypes=NUMBERS,
    spellings=spell("clamp", pl=_CLAMP, tensor=_CLAMP, tile="(tile, low, high)") + spell("clip", pl=_CLAMP, tensor=_CLAMP, tile="(tile, low, high)"),
    facts=Facts(exact=True),
)
def clamp(input: Operand, low: Operand, high: Operand) -> object:
    """The nearest number to x that is at least low and at most high; high wins where they cross, and NaN stays."""


# powers and logarithms ------------------------------------------------------------------------------------------------


@derived(_log1p, dtypes=NUMBERS, spellings=unary("log1p"), result=floating)
def log1p(input: Operand) -> object:
    """log(1 + x) for every element, accurate for small x."""


def _expm1(x: Term) -> Term:
    """From -1 to 1 by tanh, which loses nothing of a small x; the rest of x is a factor, which is 1 there."""
    near = minimum(maximum(x, -1), 1)
    half = tanh(0.5 * near)
    small, factor = (half + half) / (1 + -half), exp(x - near)
    return small * factor + (factor - 1)


@derived(_expm1, dtypes=NUMBERS, spellings=unary("expm1"), result=floating)
def expm1(input: Operand) -> object:
    """e**x - 1 for every element, accurate for small x."""


@derived(lambda x: pow(2.0, x), dtypes=NUMBERS, spellings=unary("exp2"), result=floating)
def exp2(input: Operand) -> object:
    """2**x for every element."""


@derived(lambda x: log(x) * math.log2(math.e), dtypes=NUMBERS, spellings=unary("log2"), result=floating)
def log2(input: Operand) -> object:
    """The logarithm to base 2 of every element."""


@derived(lambda x: log(x) * math.log10(math.e), dtypes=NUMBERS, spellings=unary("log10"), result=floating)
def log10(input: Operand) -> object:
    """The logarithm to base 10 of every element."""


@derived(lambda x: x * x, dtypes=NUMBERS, spellings=unary("square"))
def square(input: Operand) -> object:
    """x * x for every element."""


@derived(lambda x: sin(x) / cos(x), dtypes=INTEGERS | {FP32}, spellings=unary("tan"), result=floating)
def tan(input: Operand) -> object:
    """The tangent of every element, in radians; FP32 only (integer tensors become FP32)."""


@derived(lambda a, b: floordiv(a, b) + minimum(abs(mod(a, b)), 1), dtypes=INTEGERS, spellings=binary("cdiv"), facts=Facts(exact=True))
def cdiv(lhs: Operand, rhs: Operand) -> object:
    """lhs / rhs of integers, rounded up: how many blocks of rhs cover lhs."""
