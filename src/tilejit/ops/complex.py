"""Rows that make complex numbers and take them apart; arithmetic on them is that of the other rows.

A complex number is a pair of FP32. The reference has NumPy's; for other targets passes/pairs.py makes two real values of each, by the formulas here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from tilejit.dtypes import COMPLEX64, FP32, FP64
from tilejit.ops.dtype_rules import NUMBERS
from tilejit.ops.elementwise import elementwise
from tilejit.ops.facts import Facts
from tilejit.ops.math import unary
from tilejit.ops.numbers import NDArray
from tilejit.ops.spec import Operand, spell

_PAIRS = Facts(exact=True, of_pairs=True)
_OF_PAIRS = replace(_PAIRS, attribute=True)


def _joined(re: NDArray, im: NDArray) -> NDArray:
    out = np.array(np.broadcast_to(re, np.broadcast_shapes(re.shape, im.shape)))
    out.imag = np.real(im)
    return out


_PARTS = "(re, im)"


@elementwise(
    reference=_joined,
    dtypes=NUMBERS - {FP64},
    spellings=spell("complex", _PARTS),
    result=lambda call: COMPLEX64,
    facts=_PAIRS,
)
def complex(re: Operand, im: Operand) -> object:
    """The complex number of a real and an imaginary part, for every element."""


@elementwise(reference=np.conj, dtypes={COMPLEX64}, spellings=unary("conj"), facts=_PAIRS)
def conj(input: Operand) -> object:
    """The number with the other sign of its imaginary part, for every element."""


@elementwise(reference=np.real, dtypes={COMPLEX64}, spellings=unary("real"), result=lambda call: FP32, compute="own", facts=_OF_PAIRS)
def real(input: Operand) -> object:
    """The real part of every element, as FP32."""


@elementwise(reference=np.imag, dtypes={COMPLEX64}, spellings=unary("imag"), result=lambda call: FP32, compute="own", facts=_OF_PAIRS)
def imag(input: Operand) -> object:
    """The imaginary part of every element, as FP32."""


# formulas -------------------------------------------------------------------------------------------------------------

Part = Any
"""A real value of whoever runs the formula."""
Pair = tuple[Part, Part]


class Parts(Protocol):
    """What formulas are written with: rows on real values."""

    def __call__(self, name: str, *args: Part, **statics: object) -> Part: ...

    def product(self, name: str, lhs: Part, rhs: Part) -> Part: ...

    def same(self, lhs: Part, rhs: Part) -> Part: ...

    def kept(self, value: Part) -> Part: ...

    def spread(self, value: Part, over: Part) -> Part: ...


def _each(name: str) -> Callable[..., Pair]:
    return lambda k, x, y: (k(name, x[0], y[0]), k(name, x[1], y[1]))


def _times(k: Parts, x: Pair, y: Pair) -> Pair:
    return k("sub", k("mul", x[0], y[0]), k("mul", x[1], y[1])), k("add", k("mul", x[0], y[1]), k("mul", x[1], y[0]))


def _over(k: Parts, x: Pair, y: Pair) -> Pair:
    """As NumPy divides: by the ratio of the divisor's parts, so that no square leaves the range and what is finite over infinity is 0."""
    first, second = k("abs", y[0]), k("abs", y[1])
    large = k("maximum", first, second)
    by_real = k.same(large, first)
    ratio = k("div", k("where", by_real, y[1], y[0]), k("where", by_real, y[0], y[1]))
    c, s = k("where", by_real, 1.0, ratio), k("where", by_real, ratio, 1.0)
    scale = k("div", 1.0, k("add", k("mul", y[0], c), k("mul", y[1], s)))
    re, im = _times(k, x, (c, k("neg", s)))
    zero = k.same(large, 0.0)
    return k("where", zero, k("div", x[0], first), k("mul", re, scale)), k("where", zero, k("div", x[1], first), k("mul", im, scale))


def _size(k: Parts, x: Pair) -> Part:
    first, second = k("abs", x[0]), k("abs", x[1])
    large, small = k("maximum", first, second), k("minimum", first, second)
    ratio = k("where", k.same(small, large), 1.0, k("div", small, large))  # of zeros, and of infinities
    return k("mul", large, k("sqrt", k("add", k("mul", ratio, ratio), 1.0)))


def _power(k: Parts, x: Pair) -> Pair:
    size = k("exp", x[0])
    return k("mul", size, k("cos", x[1])), k("mul", size, k("sin", x[1]))


def _matrix_product(name: str) -> Callable[..., Pair]:
    def formula(k: Parts, x: Pair, y: Pair) -> Pair:
        re = k("sub", k.product(name, x[0], y[0]), k.product(name, x[1], y[1]))
        return re, k("add", k.product(name, x[0], y[1]), k.product(name, x[1], y[0]))

    return formula


FORMULAS: dict[str, Callable[..., Pair | Part]] = {
    "add": _each("add"),
    "sub": _each("sub"),
    "mul": _times,
    "div": _over,
    "abs": _size,
    "exp": _power,
    "conj": lambda k, x: (k.kept(x[0]), k("neg", x[1])),
    "real": lambda k, x: k.kept(x[0]),
    "imag": lambda k, x: k.kept(x[1]),
    "complex": lambda k, re, im: (k.spread(re[0], im[0]), k.spread(im[0], re[0])),
    "cast": lambda k, x: (k.kept(x[0]), k.kept(x[1])),
    "matmul": _matrix_product("matmul"),
    "batch_matmul": _matrix_product("batch_matmul"),
}
"""Rows whose parts depend on both parts of an operand, and rows that mix with real operands; all others, which move, choose or add up elements, are
done once for each part."""
