"""The arithmetic of the language on NumPy arrays, where it differs from NumPy's own.

Integers wrap around. A zero divisor counts as one (no crash, otherwise undefined); a shift amount counts as unsigned, and one of
the width or more shifts everything out. Functions other than + - * / and square root are computed in double precision and
rounded once, so the reference is correctly rounded but for rare ties.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.dtypes import BOOL, COMPLEX64, FP8E8M0, FP16, FP32, FP64, DType, integer_range

NDArray = npt.NDArray[Any]

CAST_MODES = ("none", "rint", "round", "floor", "ceil", "trunc", "odd")
"""Rounding modes of cast; their position is their number."""


def is_integer(array: NDArray) -> bool:
    return array.dtype.kind in "iu"


def in_double(function: Callable[..., NDArray]) -> Callable[..., NDArray]:
    """`function` computed in double precision, rounded once to the dtype of its first argument."""

    def rounded(*arrays: NDArray) -> NDArray:
        wide = np.complex128 if arrays[0].dtype.kind == "c" else np.float64
        return function(*(array.astype(wide) for array in arrays)).astype(arrays[0].dtype)

    return rounded


erf: Callable[[NDArray], NDArray] = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: NDArray) -> NDArray:
    return 1.0 / (1.0 + np.exp(-x))


def rsqrt(x: NDArray) -> NDArray:
    return 1.0 / np.sqrt(x)


def _divisor(b: NDArray) -> NDArray:
    return np.where(b == 0, np.ones_like(b), b)


def divide(a: NDArray, b: NDArray) -> NDArray:
    """Float division, or integer division truncated toward zero."""
    if not is_integer(a):
        return a / b
    b = _divisor(b)
    quotient = np.floor_divide(a, b)
    inexact = (quotient * b != a) & ((a < 0) != (b < 0))
    return quotient + inexact.astype(a.dtype)


def fmod(a: NDArray, b: NDArray) -> NDArray:
    """Remainder with the sign of the dividend."""
    return np.fmod(a, _divisor(b) if is_integer(a) else b)


def floor_divide(a: NDArray, b: NDArray) -> NDArray:
    """Python's `//`."""
    return np.floor_divide(a, _divisor(b) if is_integer(a) else b)


def modulo(a: NDArray, b: NDArray) -> NDArray:
    """Python's `%`: the remainder with the sign of the divisor."""
    return np.mod(a, _divisor(b) if is_integer(a) else b)


def power(a: NDArray, b: NDArray) -> NDArray:
    """`a ** b`; an integer with a negative exponent gives the truncated fraction."""
    if not is_integer(a):
        # NumPy takes the square root for one exponent 0.5, which is NaN of -inf; a power is not.
        result = in_double(np.power)(a, b)
        return np.where(np.isneginf(a.astype(np.float64)) & (b == 0.5), np.asarray(np.inf, result.dtype), result)
    result = np.power(a, np.maximum(b, 0))
    if a.dtype.kind == "u":
        return result
    of_minus_one = np.where(b % 2 == 0, 1, -1)
    fraction = np.where(a == 1, 1, np.where(a == -1, of_minus_one, 0))
    return np.where(b < 0, fraction, result).astype(a.dtype)


def shift_left(a: NDArray, b: NDArray) -> NDArray:
    width = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < width)
    return np.where(inside, np.left_shift(a, np.where(inside, b, 0)), 0).astype(a.dtype)


def shift_right(a: NDArray, b: NDArray) -> NDArray:
    """Arithmetic for signed integers, logical for unsigned ones."""
    width = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < width)
    gone = np.where(a < 0, -1, 0).astype(a.dtype) if a.dtype.kind == "i" else np.zeros_like(a)
    return np.where(inside, np.right_shift(a, np.where(inside, b, 0)), gone).astype(a.dtype)


def whole_number(function: Callable[[NDArray], NDArray]) -> Callable[[NDArray], NDArray]:
    """floor, ceil and round leave integers alone."""

    def applied(x: NDArray) -> NDArray:
        return x if is_integer(x) else function(x)

    return applied


# conversion -----------------------------------------------------------------------------------------------------------


def convert(array: NDArray, dtype: DType, mode: str = "trunc") -> NDArray:
    """`array` as `dtype`.

    Float to integer rounds by `mode`, saturates, and maps NaN to 0; integers wrap; anything but zero is true. To a float rounds to
    nearest even; to one narrower than FP32 everything goes through FP32.
    """
    target = dtype.numpy
    if array.dtype == target:
        return array
    if dtype is COMPLEX64:
        return array.astype(np.float32).astype(target)
    if dtype is BOOL:
        return (array if array.dtype == np.float64 or not is_float(array) else array.astype(np.float32)) != 0
    if dtype.is_float:
        return _as_float(array, dtype)
    if is_float(array):
        return _saturated(ROUNDERS[mode](array.astype(np.float64)), dtype)
    return _wrapped(array, dtype)


def _as_float(array: NDArray, dtype: DType) -> NDArray:
    """The nearest `dtype`. To and from narrow floats the way leads through FP32: ml_dtypes does not convert between all of them."""
    direct = dtype is FP32 or array.dtype in (np.float32, dtype.numpy) or (dtype is FP64 and not is_float(array))
    return array.astype(dtype.numpy) if direct else array.astype(np.float32).astype(dtype.numpy)


def is_float(array: NDArray) -> bool:
    return array.dtype.kind not in "biuc" and not array.dtype.name.startswith(("int", "uint"))


def _half_away(x: NDArray) -> NDArray:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def _to_odd(x: NDArray) -> NDArray:
    low = np.floor(x)
    return np.where(low == x, x, np.where(low % 2 != 0, low, low + 1))


ROUNDERS: dict[str, Callable[[NDArray], NDArray]] = {
    "none": np.rint,
    "rint": np.rint,
    "round": _half_away,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "odd": _to_odd,
}


def _saturated(values: NDArray, dtype: DType) -> NDArray:
    low, high = integer_range(dtype)
    # 2**63 - 1 is no double: compare with the next one and patch the end of the range.
    above, below = values >= float(high) + (dtype.bits < 64), values < float(low)
    inside = np.where(above | below | np.isnan(values), 0.0, values)
    work = np.uint64 if dtype.kind == "uint" else np.int64
    out = inside.astype(work)
    out = np.where(above, np.array(high, work), np.where(below, np.array(low, work), out))
    return out.astype(dtype.numpy)


def _wrapped(array: NDArray, dtype: DType) -> NDArray:
    if dtype.bits >= 8:
        return array.astype(dtype.numpy)
    low = array.astype(np.int64) & 15
    return (low - 16 * (low >= 8) if dtype.kind == "int" else low).astype(np.int8 if dtype.kind == "int" else np.uint8).astype(dtype.numpy)


def convert_float(array: NDArray, dtype: DType, mode: str) -> NDArray:
    """A float array as a narrower float dtype, rounded by `mode` (cast); overflow goes to infinity or, for trunc, stops at the largest."""
    nearest = _as_float(array, dtype)
    # Wider floats hold narrower ones exactly, but for the powers of two of FP8E8M0, which go further than FP16.
    exact_by_width = dtype.bits > array.dtype.itemsize * 8 and not (array.dtype == FP8E8M0.numpy and dtype is FP16)
    if mode in ("none", "rint") or exact_by_width or dtype is FP64:
        return nearest
    bits = np.dtype(f"u{nearest.dtype.itemsize}")
    exact, back = array.astype(np.float64), nearest.astype(np.float64)
    magnitude = nearest.view(bits)
    step_in = (np.abs(back) > np.abs(exact)).astype(bits)
    inner_bits = magnitude - step_in
    inner, outer = inner_bits.view(nearest.dtype), (inner_bits + bits.type(1)).view(nearest.dtype)
    away = {
        "trunc": np.zeros(exact.shape, bool),
        "floor": exact < 0,
        "ceil": exact > 0,
        "odd": (inner_bits & 1) == 0,
        "round": np.abs(exact) - np.abs(inner.astype(np.float64)) >= np.abs(outer.astype(np.float64)) - np.abs(exact),
    }[mode]
    rounded = np.where(away, outer, inner)
    settled = (back == exact) | np.isnan(exact) | np.isnan(back)
    if mode == "round":
        settled |= np.isinf(back)
    return np.where(settled, nearest, rounded)


def cast(array: NDArray, dtype: DType, mode: str) -> NDArray:
    """The meaning of `pl.cast`."""
    if dtype.is_float and is_float(array):
        return convert_float(array, dtype, mode)
    return convert(array, dtype, mode)
