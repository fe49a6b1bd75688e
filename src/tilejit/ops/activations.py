"""Activations and other functions that are terms over the core maths: one declaration here gives an op to every target."""

from __future__ import annotations

import math

from tilejit.errors import ArgumentError
from tilejit.ops.dtype_rules import NUMBERS, floating
from tilejit.ops.facts import Facts
from tilejit.ops.math import abs, erf, exp, log, maximum, minimum, sigmoid, tanh, unary
from tilejit.ops.spec import Call, Operand, Static, spell
from tilejit.ops.terms import Term, derived


def _log1p(u: Term) -> Term:
    """log(1 + u) for u from 0 to 1: what 1 + u loses of u is added to first order."""
    whole = 1 + u
    return log(whole) + (u - (whole - 1)) / whole


@derived(lambda x: _log1p(exp(-abs(x))) + maximum(x, 0), dtypes=NUMBERS, spellings=unary("softplus"), result=floating)
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
    spellings=spell("clamp", pl=_CLAMP, tensor=_CLAMP, tile="(tile, low, high)"),
    facts=Facts(exact=True),
)
def clamp(input: Operand, low: Operand, high: Operand) -> object:
    """The nearest number to x that is at least low and at most high; high wins where they cross, and NaN stays."""
