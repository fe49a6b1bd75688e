"""The references of elementwise rows, checked against torch, math or plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops.harness import random_array, value
from tilejit.dtypes import BF16, FP16, FP32, INDEX, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, DType, integer_range
from tilejit.ops import table

INTEGERS = (INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64)
FLOATS = (FP16, BF16, FP32)


def wrap(number: int, dtype: DType) -> int:
    low, high = integer_range(dtype)
    return (number - low) % (high - low + 1) + low


def trunc_div(a: int, b: int) -> int:
    b = b or 1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def shift(a: int, b: int, dtype: DType) -> int | None:
    """The amount, or None when everything is shifted out."""
    return b if 0 <= b < dtype.bits else None


EXACT: dict[str, Callable[[int, int, DType], int]] = {
    "add": lambda a, b, d: a + b,
    "sub": lambda a, b, d: a - b,
    "mul": lambda a, b, d: a * b,
    "div": lambda a, b, d: trunc_div(a, b),
    "fmod": lambda a, b, d: a - trunc_div(a, b) * (b or 1),
    "floordiv": lambda a, b, d: a // (b or 1),
    "mod": lambda a, b, d: a % (b or 1),
    "maximum": lambda a, b, d: max(a, b),
    "minimum": lambda a, b, d: min(a, b),
    "and_": lambda a, b, d: a & b,
    "or_": lambda a, b, d: a | b,
    "xor": lambda a, b, d: a ^ b,
    "shl": lambda a, b, d: a << s if (s := shift(a, b, d)) is not None else 0,
    "shr": lambda a, b, d: a >> s if (s := shift(a, b, d)) is not None else (-1 if a < 0 else 0),
}


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in EXACT for d in INTEGERS if n != "div" or d in (INT16, INT32)])
def test_integer_arithmetic_is_that_of_python_wrapped_to_the_width(name: str, dtype: DType) -> None:
    a, b = random_array((37,), dtype), random_array((37,), dtype)
    low, high = integer_range(dtype)
    a[:4], b[:4] = (low, high, low, 5), (max(low, -1), high, 1, 0)
    b[4:12] = rng_small(dtype)
    expected = [wrap(EXACT[name](int(x), int(y), dtype), dtype) for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(value(name, lhs=a, rhs=b), np.array(expected, dtype.numpy))


def rng_small(dtype: DType) -> Any:
    return np.array([1, 2, 3, 7, dtype.bits - 1, dtype.bits, dtype.bits + 1, 9], dtype.numpy)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_unary_integer_ops_wrap(dtype: DType) -> None:
    a = random_array((19,), dtype)
    a[0] = integer_range(dtype)[0]
    np.testing.assert_array_equal(value("neg", input=a), np.array([wrap(-int(x), dtype) for x in a], dtype.numpy))
    np.testing.assert_array_equal(value("abs", input=a), np.array([wrap(abs(int(x)), dtype) for x in a], dtype.numpy))
    for name in ("floor", "ceil", "round"):
        np.testing.assert_array_equal(value(name, input=a), a)


@pytest.mark.parametrize("dtype", [INT16, UINT16], ids=str)
def test_not_flips_every_bit(dtype: DType) -> None:
    a = random_array((19,), dtype)
    np.testing.assert_array_equal(value("not_", input=a), np.array([wrap(~int(x), dtype) for x in a], dtype.numpy))


def test_integer_powers_wrap_and_truncate_fractions() -> None:
    a = np.array([3, -2, -1, -1, 1, 0, 7, 2], np.int32)
    b = np.array([5, 3, -3, -4, -9, -1, 30, 31], np.int32)
    expected = [243, -8, -1, 1, 1, 0, wrap(7**30, INT32), wrap(2**31, INT32)]
    np.testing.assert_array_equal(value("pow", lhs=a, rhs=b), expected)


UNARY_MATH: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "log": lambda x: math.log(abs(x)),
    "sqrt": lambda x: math.sqrt(abs(x)),
    "rsqrt": lambda x: 1 / math.sqrt(abs(x)),
    "recip": lambda x: 1 / x,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "erf": math.erf,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "neg": lambda x: -x,
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "relu": lambda x: max(x, 0.0),
}
POSITIVE = ("log", "sqrt", "rsqrt")


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in UNARY_MATH for d in FLOATS if d in table()[n].dtypes])
def test_float_functions_are_math_rounded_once(name: str, dtype: DType) -> None:
    x = random_array((5, 13), dtype)
    x = np.abs(x) if name in POSITIVE else x
    exact = np.array([UNARY_MATH[name](float(v)) for v in x.ravel()]).reshape(x.shape)
    expected = exact.astype(np.float32).astype(dtype.numpy)
    np.testing.assert_array_equal(value(name, input=x).astype(np.float64), expected.astype(np.float64))


BINARY_MATH: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in BINARY_MATH for d in FLOATS if (n, d) != ("div", BF16)])
def test_float_arithmetic_rounds_after_every_op(name: str, dtype: DType) -> None:
    a, b = random_array((4, 9), dtype), random_array((4, 9), dtype)
    exact = BINARY_MATH[name](a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_array_equal(value(name, lhs=a, rhs=b).astype(np.float64), exact.astype(dtype.numpy).astype(np.float64))


@pytest.mark.torch
@pytest.mark.parametrize(("name", "torch_name"), [("fmod", "fmod"), ("mod", "remainder"), ("rem", "remainder"), ("floordiv", "floor_divide"), ("pow", "pow")])
def test_float_remainders_and_powers_agree_with_torch(name: str, torch_name: str) -> None:
    import torch

    a, b = random_array((50,), FP32), random_array((50,), FP32)
    if name == "pow":
        a = np.abs(a)
    expected = getattr(torch, torch_name)(torch.from_numpy(a), torch.from_numpy(b)).numpy()
    np.testing.assert_allclose(value(name, lhs=a, rhs=b), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.torch
def test_the_error_function_agrees_with_torch() -> None:
    import torch

    x = random_array((200,), FP32)
    np.testing.assert_allclose(value("erf", input=x), torch.erf(torch.from_numpy(x)).numpy(), rtol=1e-6)


def test_nan_wins_in_maximum_and_minimum() -> None:
    a, b = np.array([np.nan, 1, 2], np.float32), np.array([1, np.nan, 3], np.float32)
    for name in ("maximum", "minimum"):
        assert np.isnan(value(name, lhs=a, rhs=b)).tolist() == [True, True, False]
    half = a.astype(ml_dtypes.bfloat16)
    assert np.isnan(value("maximum", lhs=half, rhs=1.0).astype(np.float32))[0]


def test_float_division_by_zero_gives_infinities_and_nan() -> None:
    a = np.array([1, -1, 0], np.float32)
    np.testing.assert_array_equal(value("div", lhs=a, rhs=np.zeros(3, np.float32)), np.array([np.inf, -np.inf, np.nan], np.float32))


def test_three_operand_forms() -> None:
    a, b, c = (random_array((3, 7), FP32) for _ in range(3))
    np.testing.assert_array_equal(value("addc", lhs=a, rhs=b, rhs2=c), (a + b) + c)
    np.testing.assert_array_equal(value("subc", lhs=a, rhs=b, rhs2=c), (a - b) - c)
    np.testing.assert_array_equal(value("addc", lhs=a, rhs=1.5, rhs2=c), (a + np.float32(1.5)) + c)


@pytest.mark.parametrize("dtype", [FP16, FP32], ids=str)
def test_leaky_forms_scale_what_is_not_positive(dtype: DType) -> None:
    x, slope = random_array((3, 7), dtype), random_array((3, 7), dtype)
    wide = x.astype(np.float32)
    np.testing.assert_array_equal(value("lrelu", input=x, slope=0.25), np.where(wide > 0, wide, wide * 0.25).astype(dtype.numpy))
    scaled = (wide * slope.astype(np.float32)).astype(dtype.numpy)
    np.testing.assert_array_equal(value("prelu", input=x, slope=slope), np.where(wide > 0, x, scaled))


# scalars --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "python"), [("floordiv", lambda a, b: a // b), ("mod", lambda a, b: a % b), ("mul", lambda a, b: a * b)])
def test_index_scalars_compute_as_python_does(name: str, python: Callable[[int, int], int]) -> None:
    for a, b in ((7, 2), (-7, 2), (7, -2), (-8, 3), (1 << 40, 5)):
        result = value(name, "scalar", lhs=np.int64(a), rhs=b)
        assert result == python(a, b) and result.dtype == np.int64


def test_scalar_results_have_the_exact_dtype() -> None:
    assert value("add", "scalar", lhs=np.int32(3), rhs=4).dtype == np.int32
    assert value("add", "scalar", lhs=np.int64(3), rhs=np.int32(4)).dtype == INDEX.numpy
    assert value("mul", "scalar", lhs=np.int64(3), rhs=0.5).dtype == np.float32
    assert value("maximum", "scalar", lhs=np.float16(1.5), rhs=2).dtype == np.float16
    assert value("div", "scalar", lhs=np.int64(-7), rhs=2) == -3
    assert value("add", "scalar", lhs=np.int8(3), rhs=1000).dtype == INDEX.numpy
    assert value("exp", "scalar", input=np.float32(1)).dtype == np.float32


def test_flags_combine_with_and_or_not_and_bit_operators() -> None:
    true, false = np.bool_(True), np.bool_(False)
    assert value("logical_and", "scalar", lhs=true, rhs=false) == np.False_
    assert value("logical_or", "scalar", lhs=true, rhs=false) == np.True_
    assert value("logical_not", "scalar", input=true) == np.False_
    assert value("and_", "scalar", lhs=true, rhs=True) == np.True_
    assert value("not_", "scalar", input=np.int32(5)) == -6


@pytest.mark.parametrize("shape", [(4, 5), (4, 1), (1, 1)])
def test_a_power_of_minus_infinity_does_not_depend_on_the_shape_of_the_exponent(shape: tuple[int, ...]) -> None:
    out = value("pow", lhs=np.full((4, 5), -np.inf, np.float32), rhs=np.full(shape, 0.5, np.float32))
    assert (out == np.inf).all()
