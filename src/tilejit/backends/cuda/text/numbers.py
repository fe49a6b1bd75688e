"""Arithmetic on INDEX scalars in the text: folds constants, knows bounds, and widens to 64 bits only where a number may not fit in 32."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import reduce

from tilejit.backends.cuda.text.types import fits32
from tilejit.backends.cuda.text.values import Bounds, Scalar, index
from tilejit.dtypes import INDEX


def _made(text: str, bounds: Bounds, form: str | None = None) -> Scalar:
    return Scalar(text, INDEX, bounds, form=form)


def _form(a: Scalar, sign: str, b: Scalar) -> str:
    """The form of a sum or product: constants last, other operands in one order."""
    first, second = sorted((a.key, b.key), key=lambda key: (key.isdigit(), key)) if sign in "+*" else (a.key, b.key)
    return f"({first} {sign} {second})"


def _sides(a: Scalar, b: Scalar, bounds: Bounds) -> tuple[str, str]:
    """The texts of two operands, widened where the result may need 64 bits."""
    if fits32(bounds) and a.narrow and b.narrow:
        return a.text, b.text
    return wide(a), wide(b)


def wide(value: Scalar) -> str:
    """The text of an INDEX as a 64-bit number."""
    if value.const is not None:
        return f"tl.full((), {value.text}, tl.int64)"
    return f"{value.text}.to(tl.int64)" if value.narrow else value.text


def as_index(value: Scalar) -> Scalar:
    """Any integer scalar as an INDEX."""
    if value.dtype is INDEX:
        return value
    if value.const is not None:
        return index(int(value.const))
    return Scalar(f"{value.text}.to(tl.int64)", INDEX)


def add(a: Scalar, b: Scalar) -> Scalar:
    if isinstance(a.const, int) and isinstance(b.const, int):
        return index(a.const + b.const)
    if a.const == 0:
        return b
    if b.const == 0:
        return a
    bounds = (a.bounds[0] + b.bounds[0], a.bounds[1] + b.bounds[1]) if a.bounds and b.bounds else None
    left, right = _sides(a, b, bounds)
    return _made(f"({left} + {right})", bounds, _form(a, "+", b))


def sub(a: Scalar, b: Scalar) -> Scalar:
    if isinstance(a.const, int) and isinstance(b.const, int):
        return index(a.const - b.const)
    if b.const == 0:
        return a
    known = difference(a, b)
    if known is not None:
        return index(known)
    below = re.search(r" // (\d+)\) \* \1\)$", b.key)
    if below and a.narrow and b.key == f"(({a.key} // {below[1]}) * {below[1]})":
        return mod(a, int(below[1]))
    bounds = (a.bounds[0] - b.bounds[1], a.bounds[1] - b.bounds[0]) if a.bounds and b.bounds else None
    left, right = _sides(a, b, bounds)
    return _made(f"({left} - {right})", bounds, _form(a, "-", b))


def mul(a: Scalar, b: Scalar) -> Scalar:
    if isinstance(a.const, int) and isinstance(b.const, int):
        return index(a.const * b.const)
    if a.const == 0 or b.const == 0:
        return index(0)
    if a.const == 1:
        return b
    if b.const == 1:
        return a
    bounds = None
    if a.bounds and b.bounds:
        corners = [x * y for x in a.bounds for y in b.bounds]
        bounds = (min(corners), max(corners))
    left, right = _sides(a, b, bounds)
    return _made(f"({left} * {right})", bounds, _form(a, "*", b))


def minimum(a: Scalar, b: Scalar) -> Scalar:
    return _extreme(a, b, "minimum")


def maximum(a: Scalar, b: Scalar) -> Scalar:
    return _extreme(a, b, "maximum")


_ANY = (-(1 << 63), (1 << 63) - 1)


def _extreme(a: Scalar, b: Scalar, name: str) -> Scalar:
    best = min if name == "minimum" else max
    if isinstance(a.const, int) and isinstance(b.const, int):
        return index(best(a.const, b.const))
    ahead = difference(a, b)
    if ahead is not None:
        return a if (ahead <= 0) == (name == "minimum") else b
    first, second = a.bounds or _ANY, b.bounds or _ANY
    # One of the two may be known to be the answer.
    if (first[1] <= second[0]) if name == "minimum" else (first[0] >= second[1]):
        return a
    if (second[1] <= first[0]) if name == "minimum" else (second[0] >= first[1]):
        return b
    bounds = (best(first[0], second[0]), best(first[1], second[1]))
    if a.narrow and b.narrow:
        return _made(f"tl.{name}({a.text}, {b.text})", bounds)
    text = f"tl.{name}({wide(a)}, {wide(b)})"
    return _made(f"{text}.to(tl.int32)" if fits32(bounds) else text, bounds)


def clamp(value: Scalar, low: Scalar, high: Scalar) -> Scalar:
    return minimum(maximum(value, low), high)


def floordiv(a: Scalar, b: int) -> Scalar:
    """By a positive constant; `a` is not negative."""
    if isinstance(a.const, int):
        return index(a.const // b)
    if b == 1:
        return a
    bounds = (a.bounds[0] // b, a.bounds[1] // b) if a.bounds else None
    return _made(f"({a.text} // {b})", bounds, _form(a, "//", index(b)))


def mod(a: Scalar, b: int) -> Scalar:
    """By a positive constant; `a` is not negative."""
    if isinstance(a.const, int):
        return index(a.const % b)
    return index(0) if b == 1 else _made(f"({a.text} % {b})", (0, b - 1) if a.narrow else None, _form(a, "%", index(b)))


def quotient(a: Scalar, b: Scalar) -> Scalar | None:
    """a // b where neither is negative and b is known; else None."""
    return floordiv(a, b.const) if _counts(a) and isinstance(b.const, int) and b.const > 0 else None


def remainder(a: Scalar, b: Scalar) -> Scalar | None:
    """a % b where neither is negative and b is known; else None."""
    return mod(a, b.const) if _counts(a) and isinstance(b.const, int) and b.const > 0 else None


def _counts(value: Scalar) -> bool:
    return value.bounds is not None and value.bounds[0] >= 0


def total(values: Iterable[Scalar]) -> Scalar:
    return reduce(add, values, index(0))


def product(values: Iterable[Scalar]) -> Scalar:
    return reduce(mul, values, index(1))


def same(a: Scalar, b: Scalar) -> bool:
    """Whether two numbers are surely equal."""
    return a.text == b.text or difference(a, b) == 0


def difference(a: Scalar, b: Scalar) -> int | None:
    """a - b, where both are known, or one is the other and a constant."""
    if isinstance(a.const, int) and isinstance(b.const, int):
        return a.const - b.const
    (left, more), (right, less) = _split(a), _split(b)
    return more - less if left == right else None


def _split(value: Scalar) -> tuple[str, int]:
    """The form of a number as another one and a constant that is added to it."""
    found = re.fullmatch(r"\((.*) \+ (\d+)\)", value.key)
    return (found[1], int(found[2])) if found and value.form is not None else (value.key, 0)


def within(value: Scalar, low: int, high: Scalar) -> bool:
    """Whether low <= value <= high is certain."""
    if value.bounds is None or value.bounds[0] < low:
        return False
    return same(value, high) or (high.bounds is not None and value.bounds[1] <= high.bounds[0])


def at_least(value: Scalar, needed: Scalar) -> str:
    """The text of value >= needed, a flag of Triton even where both are known."""
    known = value.const is not None and needed.const is not None
    return f"tl.full((), {int(float(value.const or 0) >= float(needed.const or 0))}, tl.int1)" if known else f"{value.text} >= {needed.text}"
