"""Angles of a point: composed of arithmetic, comparisons and choices, so that every target has them."""

from __future__ import annotations

import math

from tilejit.dtypes import FP32, FP64
from tilejit.errors import ArgumentError
from tilejit.ops.compose import Handle, Kit, composed, require_values
from tilejit.ops.dtype_rules import FLOATS
from tilejit.ops.spec import Operand, Value, spell
from tilejit.types.values import ShapedType

_NE, _LT, _GT = 1, 2, 4
_SINGLE = (0.05047937432040091, -0.08624598215196126, 0.11071354571201351, -0.14284150629730288, 0.1999997724823353, -0.3333333327922454)
_DOUBLE = (
    -0.013916943217800841, 0.03063443323901452, -0.04104381417807643, 0.04719381457895137, -0.052580394289794816, 0.05881925033877732, -0.06666642004996545,
    0.07692306735321475, -0.0909090906699066, 0.11111111110754406, -0.14285714285711515, 0.19999999999999993, -0.3333333333333333,
)  # fmt: skip
"""(atan(t) - t) / t**3 as a polynomial of t**2, for t up to tan(pi / 8): minimax, to 5e-10 and 4e-20."""
_PI = {FP32: (3.1415927410125732, -8.742277657347586e-08), FP64: (math.pi, 1.2246467991473532e-16)}
"""Pi as a number of the type, and what is missing from it."""


def _turned(k: Kit, angle: Handle, parts: float) -> Handle:
    """pi / parts less an angle, to the last bit."""
    whole, rest = (number / parts for number in _PI[k.type(angle).dtype])
    return k("add", k("add", k("neg", angle), whole), rest)


def _acute(k: Kit, ratio: Handle) -> Handle:
    """The angle whose tangent is a number from 0 to 1."""
    steep = k("compare", ratio, math.tan(math.pi / 8), _GT)
    # Above pi / 8 the angle is pi / 4 less a small one.
    t = k("where", steep, k("div", k("add", k("neg", ratio), 1.0), k("add", ratio, 1.0)), ratio)
    square = k("mul", t, t)
    first, *others = _SINGLE if k.type(ratio).dtype is FP32 else _DOUBLE
    total = k("add", k("mul", square, first), others[0])
    for coefficient in others[1:]:
        total = k("add", k("mul", total, square), coefficient)
    angle = k("add", t, k("mul", k("mul", t, square), total))
    return k("where", steep, _turned(k, angle, 4), angle)


def _negative(k: Kit, value: Handle) -> Handle:
    """Where a number is below zero, or -0.0."""
    return k("compare", k("where", k("compare", value, 0.0, _NE), value, k("recip", value)), 0.0, _LT)


def _angle(k: Kit, y: Handle, x: Handle) -> Handle:
    """The angle of (x, y), both FP32 or both FP64. What is no number differs from everything, so it gets through."""
    up, along = k("abs", y), k("abs", x)
    low, high = k("minimum", up, along), k("maximum", up, along)
    ratio = k("where", k("compare", low, high, _NE), k("div", low, high), 1.0)  # infinities agree
    angle = _acute(k, k("where", k("compare", high, 0.0, _NE), ratio, 0.0))
    angle = k("where", k("compare", up, along, _GT), _turned(k, angle, 2), angle)
    angle = k("where", _negative(k, x), _turned(k, angle, 1), angle)
    return k("where", _negative(k, y), k("neg", angle), angle)


def _wide(k: Kit, value: Handle, dtype: Handle) -> Handle:
    return value if k.type(value).dtype is dtype else k("cast", value, dtype)


@composed(*spell("atan2", "(y, x)"), dtypes=FLOATS)
def atan2(k: Kit, y: Operand, x: Operand) -> object:
    """The angle of the point (x, y) in radians, from -pi to pi, with the signs of zeros as in NumPy."""
    shaped = [value for value in (y, x) if not isinstance(value, int | float)]
    if not shaped:
        raise ArgumentError("atan2 takes at least one tensor or tile", help="math.atan2 computes on numbers while compiling")
    types: list[ShapedType] = [require_values(k, value, FLOATS, name) for value, name in ((y, "y"), (x, "x")) if not isinstance(value, int | float)]
    result = max((type.dtype for type in types), key=lambda dtype: dtype.bits)
    work = FP64 if result is FP64 else FP32
    first, second = (k("full_like", shaped[0], float(value), work) if isinstance(value, int | float) else _wide(k, value, work) for value in (y, x))
    return _wide(k, _angle(k, first, second), result)


@composed(*spell("atan", "(input)"), dtypes=FLOATS)
def atan(k: Kit, input: Value) -> object:
    """The angle whose tangent is x, in radians, from -pi / 2 to pi / 2, for every element."""
    require_values(k, input, FLOATS)
    return k("atan2", input, 1.0)
