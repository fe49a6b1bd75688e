"""Scalars of a declared float type in builtins and containers: specialised or parameters of the program, a kernel computes the same with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.dtypes import DType
from tilejit.jit.reads.plain import decode, encode
from tilejit.jit.reads.typed import TypedFloat

pytestmark = pytest.mark.dispatch
T = pl.Tensor[[4, 8], pl.FP32]
ones = np.ones((4, 8), np.float32)


@pl.jit.inline
def thrice(t, s):  # pyright: ignore[reportMissingParameterType]
    return pl.mul(t, s * 3)


@pl.jit.inline
def itself(s):  # pyright: ignore[reportMissingParameterType]
    return s


def doubled(number: float) -> float:
    return number * 2 if type(number) is float else 0.0


def builtins(dtype: DType, **options: Any) -> Any:
    @pl.jit(**options)
    def kernel(x: T, s: dtype, o1: pl.Out[T], o2: pl.Out[T], o3: pl.Out[T], o4: pl.Out[T], o5: pl.Out[T], o6: pl.Out[T]):  # pyright: ignore[reportInvalidTypeForm]
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [4, 8])
            pl.store(thrice(t, abs(-s)), [0, 0], o1)
            pl.store(pl.mul(t, min(s, 2) * 3), [0, 0], o2)
            pl.store(thrice(t, max(s, s * 3)), [0, 0], o3)
            pl.store(thrice(t, sum((s, s, s))), [0, 0], o4)
            pl.store(thrice(t, sum([v * 3 for v in (s, s)], s)), [0, 0], o5)
            pl.store(pl.mul(t, 1.0) if abs(s) * 3 == s * 3 else t * 2.0, [0, 0], o6)

    return kernel


def wider(dtype: DType, **options: Any) -> Any:
    @pl.jit(**options)
    def kernel(x: T, s: dtype, o1: pl.Out[T], o2: pl.Out[T], o3: pl.Out[T]):  # pyright: ignore[reportInvalidTypeForm]
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [4, 8])
            pl.store(thrice(t, max(s, 0.3)), [0, 0], o1)
            pl.store(pl.mul(t, (s + 0.3) * 3), [0, 0], o2)
            pl.store(thrice(t, sum((s,), start=0.3)), [0, 0], o3)

    return kernel


def containers(dtype: DType, **options: Any) -> Any:
    @pl.jit(**options)
    def kernel(x: T, s: dtype, o1: pl.Out[T], o2: pl.Out[T], o3: pl.Out[T], o4: pl.Out[T], o5: pl.Out[T], o6: pl.Out[T]):  # pyright: ignore[reportInvalidTypeForm]
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [4, 8])
            pl.store(thrice(t, (s, 1)[0]), [0, 0], o1)
            pl.store(thrice(t, {"a": s}.get("a")), [0, 0], o2)
            pl.store(thrice(t, itself((s, 2))[0]), [0, 0], o3)
            pl.store(thrice(t, max([s, s])), [0, 0], o4)
            pl.store(thrice(t, 0.0 or s), [0, 0], o5)
            pl.store(pl.mul(t, itself(s) * 3), [0, 0], o6)

    return kernel


@pytest.mark.parametrize("dtype", [pl.FP16, pl.BF16])
@pytest.mark.parametrize("kernel", [builtins, wider, containers])
def test_a_specialised_scalar_keeps_its_type_as_a_parameter_does(kernel: Any, dtype: DType, platform: str) -> None:
    special, parameter = kernel(dtype), kernel(dtype, runtime_scalars=("s",))
    assert [float(array[0, 0]) for array in special(ones, 0.1)] == [float(array[0, 0]) for array in parameter(ones, 0.1)]


@pl.jit
def python_only(x: T, s: pl.FP16, o1: pl.Out[T], o2: pl.Out[T], o3: pl.Out[T], o4: pl.Out[T], o5: pl.Out[T]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 8])
        pl.store(pl.mul(t, pow(s, 3)), [0, 0], o1)
        pl.store(pl.mul(t, divmod(s, s * 3)[1] * 3), [0, 0], o2)
        pl.store(thrice(t, round(s, 2)), [0, 0], o3)  # pyright: ignore[reportArgumentType, reportCallIssue]
        pl.store(thrice(t, sorted((s, 0.01))[1]), [0, 0], o4)
        pl.store(pl.mul(t, doubled(s)), [0, 0], o5)  # pyright: ignore[reportArgumentType]


def test_builtins_that_only_run_while_compiling_keep_the_type_and_functions_of_python_get_floats(platform: str) -> None:
    s, three = np.float16(0.1), np.float16(0.1) * np.float16(3)
    cube = np.float16(float(s) ** 3)
    assert [float(array[0, 0]) for array in python_only(ones, 0.1)] == [float(cube), float(three), float(three), float(three), float(s) * 2]


def test_numbers_of_one_value_and_two_types_are_told_apart_in_writing() -> None:
    half = TypedFloat(0.5, pl.FP16)
    back = decode(encode((half, 1)))
    assert isinstance(back, tuple)
    assert (back[0], type(back[0]), back[0].dtype) == (0.5, TypedFloat, pl.FP16)
    assert len({str(encode(number)) for number in (half, TypedFloat(0.5, pl.BF16), 0.5)}) == 3
