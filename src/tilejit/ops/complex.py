"""Rows that make complex numbers and take them apart; arithmetic on them is that of the other rows.

A complex number is a pair of FP32. Only the reference computes with pairs: for other targets passes/pairs.py makes two real values of each.
"""

from __future__ import annotations

import numpy as np

from tilejit.dtypes import COMPLEX64, FP32, FP64
from tilejit.ops.dtype_rules import NUMBERS
from tilejit.ops.elementwise import elementwise
from tilejit.ops.facts import Facts
from tilejit.ops.math import unary
from tilejit.ops.numbers import NDArray
from tilejit.ops.spec import Operand, spell

_PAIRS = Facts(exact=True, of_pairs=True)


def _joined(re: NDArray, im: NDArray) -> NDArray:
    out = np.array(np.broadcast_to(re, np.broadcast_shapes(re.shape, im.shape)))
    out.imag = im.real
    return out


_PARTS = "(re, im)"


@elementwise(
    reference=_joined,
    dtypes=NUMBERS - {FP64},
    spellings=spell("complex", pl=_PARTS, tensor=_PARTS, tile=_PARTS),
    result=lambda call: COMPLEX64,
    facts=_PAIRS,
)
def complex(re: Operand, im: Operand) -> object:
    """The complex number of a real and an imaginary part, for every element."""


@elementwise(reference=np.conj, dtypes={COMPLEX64}, spellings=unary("conj"), facts=_PAIRS)
def conj(input: Operand) -> object:
    """The number with the other sign of its imaginary part, for every element."""


@elementwise(reference=np.real, dtypes={COMPLEX64}, spellings=unary("real"), result=lambda call: FP32, compute="own", facts=_PAIRS)
def real(input: Operand) -> object:
    """The real part of every element, as FP32."""


@elementwise(reference=np.imag, dtypes={COMPLEX64}, spellings=unary("imag"), result=lambda call: FP32, compute="own", facts=_PAIRS)
def imag(input: Operand) -> object:
    """The imaginary part of every element, as FP32."""
