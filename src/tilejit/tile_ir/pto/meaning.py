"""The arithmetic of PTO ops on arrays of their own dtype, where it is more than one NumPy call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.ops import numbers
from tilejit.ops.compare import COMPARISONS
from tilejit.ops.gather import CMP_MODES
from tilejit.ops.numbers import in_double

NDArray = npt.NDArray[Any]
MASK_PATTERNS = ("P0101", "P1010", "P0001", "P0010", "P0100", "P1000", "P1111")
"""The names of the patterns 1, 2, … of the op table; they read from right to left."""


def mask_pattern(name: str) -> int:
    """The number of a pattern in the op table."""
    return MASK_PATTERNS.index(name) + 1


def comparison(mode: str) -> Callable[..., NDArray]:
    """The comparison of arrays that a mode names."""
    return COMPARISONS[CMP_MODES.index(mode)]


def maximum(a: NDArray, b: NDArray) -> NDArray:
    """`a < b ? b : a`: the first wins when the comparison is false, also for NaN."""
    return np.where(a < b, b, a)


def minimum(a: NDArray, b: NDArray) -> NDArray:
    return np.where(b < a, b, a)


def add3(a: NDArray, b: NDArray, c: NDArray) -> NDArray:
    return a + b + c


def subtract_add(a: NDArray, b: NDArray, c: NDArray) -> NDArray:
    return a - b + c


def leaky(a: NDArray, slope: NDArray) -> NDArray:
    """`a > 0 ? a : a * slope`."""
    return np.where(a > 0, a, a * slope)


def leaky_f32(a: NDArray, slope: NDArray) -> NDArray:
    """The slope is a float32 whatever the tile holds: the product is rounded once."""
    return leaky(a.astype(np.float32), np.asarray(slope, np.float32)).astype(a.dtype)


def relu(a: NDArray) -> NDArray:
    return np.where(a > 0, a, np.zeros_like(a))


def fill(scalar: NDArray) -> NDArray:
    return np.asarray(scalar)


def axpy(d: NDArray, a: NDArray, s: NDArray) -> NDArray:
    """In the type of `d`."""
    return d + a.astype(d.dtype) * s.astype(d.dtype)


exp = in_double(np.exp)
log = in_double(np.log)
square_root = in_double(np.sqrt)
inverse_root = in_double(numbers.rsqrt)
absolute = np.abs


def reciprocal(a: NDArray) -> NDArray:
    return np.ones_like(a) / a


def exp_difference(a: NDArray, b: NDArray) -> NDArray:
    return exp(a - b)


# reductions: (values, axis) → values without that axis ---------------------------------------------------------------------


def row_sum(values: NDArray, axis: int) -> NDArray:
    """Halves add up in float32 and are rounded once."""
    return values.astype(np.float32).sum(axis) if values.dtype.itemsize == 2 and values.dtype.kind not in "iu" else values.sum(axis, dtype=values.dtype)


def column_sum(values: NDArray, axis: int) -> NDArray:
    """In the dtype of the tile, from the first row to the last."""
    return _in_order(np.add, values, axis)


def product(values: NDArray, axis: int) -> NDArray:
    return _in_order(np.multiply, values, axis)


def largest(values: NDArray, axis: int) -> NDArray:
    return _in_order(maximum, values, axis)


def smallest(values: NDArray, axis: int) -> NDArray:
    return _in_order(minimum, values, axis)


def first_largest(values: NDArray, axis: int) -> NDArray:
    return np.argmax(values.astype(np.float64), axis)


def first_smallest(values: NDArray, axis: int) -> NDArray:
    return np.argmin(values.astype(np.float64), axis)


def _in_order(function: Any, values: NDArray, axis: int) -> NDArray:
    lines = np.moveaxis(values, axis, 0)
    out = lines[0]
    for line in lines[1:]:
        out = function(out, line)
    return out
