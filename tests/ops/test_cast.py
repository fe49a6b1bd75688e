"""Conversion between dtypes: modes, saturation, wrapping, odd corners."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.ops.harness import random_array, value
from tilejit.dtypes import BF16, BOOL, DTYPES, FP8E4M3FN, FP16, FP32, INT4, INT8, INT32, INT64, UINT4, UINT8, UINT16, UINT64, DType, integer_range
from tilejit.ops.numbers import CAST_MODES


def rounded(x: float, mode: str) -> int:
    """Plain Python's answer for a rounding mode."""
    exact = Fraction(x)
    low = math.floor(exact)
    if exact == low:
        return low
    half = exact - low
    nearest_even = low if half < Fraction(1, 2) or (half == Fraction(1, 2) and low % 2 == 0) else low + 1
    away = low + 1 if half > Fraction(1, 2) or (half == Fraction(1, 2) and x > 0) else low
    return {
        "none": nearest_even,
        "rint": nearest_even,
        "round": away,
        "floor": low,
        "ceil": low + 1,
        "trunc": low if x > 0 else low + 1,
        "odd": low if low % 2 else low + 1,
    }[mode]


@pytest.mark.parametrize("mode", CAST_MODES)
@pytest.mark.parametrize("dtype", [INT8, UINT8, INT32, INT64, UINT64], ids=str)
def test_float_to_integer_rounds_by_mode_and_saturates(mode: str, dtype: DType) -> None:
    corners = np.array([3e38, -3e38, 2.0**31, 2.0**63, 2.0**64], np.float32)
    x = np.concatenate([random_array((40,), FP32, -300, 300), np.arange(-9, 9, dtype=np.float32) / 2, corners])
    low, high = integer_range(dtype)
    expected = [min(max(rounded(float(v), mode), low), high) for v in x]
    assert value("cast", input=x, target_type=dtype, mode=mode).tolist() == expected


def test_nan_and_infinities_become_zero_and_the_ends_of_the_range() -> None:
    x = np.array([np.nan, np.inf, -np.inf], np.float32)
    assert value("cast", input=x, target_type=INT32).tolist() == [0, 2**31 - 1, -(2**31)]
    assert value("cast", input=x, target_type=UINT16).tolist() == [0, 65535, 0]


def neighbours(x: float, dtype: DType) -> tuple[float, float]:
    """The closest values of a dtype at or toward zero, and away from it."""
    step = np.dtype(f"u{dtype.get_byte()}").type(1)
    near = np.array([x], np.float64).astype(dtype.numpy)
    bits = near.view(step.dtype)
    if abs(float(near[0])) > abs(x):
        return float((bits - step).view(dtype.numpy)[0]), float(near[0])
    return float(near[0]), float((bits + step).view(dtype.numpy)[0])


@pytest.mark.parametrize("mode", CAST_MODES)
@pytest.mark.parametrize("dtype", [FP16, BF16], ids=str)
def test_narrower_floats_round_by_mode(mode: str, dtype: DType) -> None:
    grid = random_array((60,), dtype).astype(np.float32)
    ties = np.array([sum(neighbours(float(g) * 1.0000001, dtype)) / 2 for g in grid], np.float32)
    x = np.concatenate([grid, ties, random_array((60,), FP32)])
    got = value("cast", input=x, target_type=dtype, mode=mode)
    for source, result in zip(x, got.astype(np.float64), strict=True):
        inner, outer = neighbours(float(source), dtype)
        if inner == source:
            assert result == source
            continue
        odd = inner if int(np.array([inner], dtype.numpy).view(np.uint16)[0]) % 2 else outer
        closer = inner if abs(source - inner) < abs(outer - source) else outer
        tie = abs(source - inner) == abs(outer - source)
        expected = {
            "trunc": inner,
            "floor": inner if source > 0 else outer,
            "ceil": outer if source > 0 else inner,
            "odd": odd,
            "round": outer if tie else closer,
            "rint": (outer if odd == inner else inner) if tie else closer,
        }["rint" if mode == "none" else mode]
        assert result == expected, (source, mode)


def test_overflow_to_a_narrower_float() -> None:
    x = np.array([1e6, -1e6, 65520.0, 65519.0], np.float32)
    assert value("cast", input=x, target_type=FP16).tolist() == [np.inf, -np.inf, np.inf, 65504]
    assert value("cast", input=x, target_type=FP16, mode="trunc").tolist() == [65504, -65504, 65504, 65504]
    assert np.isnan(value("cast", input=np.array([np.nan], np.float32), target_type=BF16, mode="round")[0])


def test_integers_wrap_to_narrower_ones() -> None:
    x = np.array([0, 255, 256, -1, -129, 70000], np.int32)
    assert value("cast", input=x, target_type=INT8).tolist() == [0, -1, 0, -1, 127, 112]
    assert value("cast", input=x, target_type=UINT8).tolist() == [0, 255, 0, 255, 127, 112]
    assert value("cast", input=x, target_type=INT4).astype(np.int8).tolist() == [0, -1, 0, -1, -1, 0]
    assert value("cast", input=x, target_type=UINT4).astype(np.uint8).tolist() == [0, 15, 0, 15, 15, 0]


def test_flags_are_one_and_zero_and_anything_but_zero_is_true() -> None:
    assert value("cast", input=np.array([True, False]), target_type=FP32).tolist() == [1, 0]
    assert value("cast", input=np.array([0.0, -0.0, 0.1, np.nan], np.float32), target_type=BOOL).tolist() == [False, False, True, True]
    assert value("cast", input=np.array([0, 256], np.int32), target_type=BOOL).tolist() == [False, True]


def test_modes_have_numbers_and_the_same_dtype_does_nothing() -> None:
    x = np.array([2.5, -2.5], np.float32)
    assert value("cast", input=x, target_type=INT32, mode=2).tolist() == [3, -3]
    assert value("cast", input=x, target_type=INT32, mode=5).tolist() == [2, -2]
    np.testing.assert_array_equal(value("cast", input=x, target_type=FP32), x)


def test_eight_bit_floats_round_as_ml_dtypes_does() -> None:
    x = random_array((64,), FP32)
    got = value("cast", input=x, target_type=FP8E4M3FN, mode="rint")
    np.testing.assert_array_equal(got.astype(np.float32), x.astype(ml_dtypes.float8_e4m3fn).astype(np.float32))


def test_scalars_convert_too() -> None:
    assert value("cast", "scalar", input=np.int32(5), target_type=DTYPES["INDEX"]) == 5
    assert value("cast", "scalar", input=np.float32(2.5), target_type=INT32) == 3
