"""Scalars of a declared float type: what a kernel computes with them is the same whether they are specialised or parameters of the program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import errors
from tilejit.dtypes import DType

pytestmark = pytest.mark.dispatch
T = pl.Tensor[[4, 8], pl.FP32]
ones = np.ones((4, 8), np.float32)


@pl.jit.inline
def times(t, s):  # pyright: ignore[reportMissingParameterType]
    return pl.mul(t, s)


@pl.jit.inline
def through(t, s):  # pyright: ignore[reportMissingParameterType]
    return times(t, s)


@pl.jit.inline
def times_first(t, numbers):  # pyright: ignore[reportMissingParameterType]
    return pl.mul(t, numbers[0])


@pl.jit.inline
def itself(s):  # pyright: ignore[reportMissingParameterType]
    return s


def passing(dtype: DType, **options: Any) -> Any:
    @pl.jit(**options)
    def passed(
        x: T, s: dtype, o1: pl.Out[T], o2: pl.Out[T], o3: pl.Out[T], o4: pl.Out[T], o5: pl.Out[T], o6: pl.Out[T]  # pyright: ignore[reportInvalidTypeForm]
    ):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [4, 8])
            pl.store(pl.mul(t, s), [0, 0], o1)
            pl.store(times(t, s), [0, 0], o2)
            u = s
            pl.store(times(t, u), [0, 0], o3)
            pl.store(times_first(t, (s, 1)), [0, 0], o4)
            pl.store(times(t, itself(s)), [0, 0], o5)
            pl.store(through(t, s), [0, 0], o6)

    return passed


def computing(dtype: DType, **options: Any) -> Any:
    @pl.jit(**options)
    def computed(
        x: T, s: dtype, o1: pl.Out[T], o2: pl.Out[T], o3: pl.Out[T], o4: pl.Out[T], o5: pl.Out[T], o6: pl.Out[T]  # pyright: ignore[reportInvalidTypeForm]
    ):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [4, 8])
            pl.store(times(t, s * 3), [0, 0], o1)
            if s == 0.1:
                pl.store(t, [0, 0], o2)
            else:
                pl.store(pl.mul(t, 2.0), [0, 0], o2)
            s *= 3
            pl.store(times(t, -s), [0, 0], o3)
            pl.store(times(t, s + 0.3), [0, 0], o4)
            for _ in pl.range(3):
                s = s * 3
            pl.store(times(t, s), [0, 0], o5)
            pl.store(times(t, 1 / s), [0, 0], o6)

    return computed


@pytest.mark.parametrize("dtype", [pl.FP16, pl.BF16, pl.FP32])
@pytest.mark.parametrize("kernel", [passing, computing])
def test_a_specialised_scalar_is_what_it_is_as_a_parameter(kernel: Any, dtype: DType, platform: str) -> None:
    special, parameter = kernel(dtype), kernel(dtype, runtime_scalars=("s",))
    assert [float(array[0, 0]) for array in special(ones, 0.1)] == [float(array[0, 0]) for array in parameter(ones, 0.1)]


def test_a_helper_sees_what_the_type_of_the_parameter_holds(platform: str) -> None:
    assert [array[0, 0] for array in passing(pl.FP16)(ones, 0.1)] == [np.float32(np.float16(0.1))] * 6


def test_numbers_that_are_one_in_the_declared_type_are_one_specialisation() -> None:
    kernel = passing(pl.FP16)
    assert kernel.specialized_source(ones, 0.1) == kernel.specialized_source(ones, float(np.float16(0.1)))


def narrow(dtype: DType) -> Any:
    @pl.jit.inline
    def narrowed(t, s: dtype):  # pyright: ignore[reportInvalidTypeForm, reportMissingParameterType]
        return times(t, s)

    @pl.jit
    def kernel(x: T, out: pl.Out[T]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(narrowed(pl.load(x, [0, 0], [4, 8]), 0.1), [0, 0], out)

    return kernel


def test_a_number_for_a_declared_parameter_of_a_helper_is_of_its_type(platform: str) -> None:
    assert narrow(pl.FP16)(ones)[0, 0] == np.float32(np.float16(0.1))


_FIRST = """
import numpy as np
import tilejit.language as pl
T = pl.Tensor[[4, 8], pl.FP32]
@pl.jit
def k(x: T, s: pl.FP16, out: pl.Out[T]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * (1.0 - s)
print(float(k(np.ones((4, 8), np.float32), 0.1)[0, 0]))
"""


def test_such_a_kernel_may_be_the_first_that_a_process_compiles(tmp_path: Path) -> None:
    script = tmp_path / "first.py"
    script.write_text(_FIRST, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(0.9, abs=1e-3)


@pytest.mark.parametrize("runtime", [(), ("flag",)], ids=["specialised", "runtime"])
def test_flags_are_true_or_false(runtime: tuple[str, ...]):
    @pl.jit(runtime_scalars=runtime)
    def kernel(x: T, flag: pl.BOOL, out: pl.Out[T]):
        with pl.at(level=pl.Level.CORE_GROUP):
            if flag:
                out[:] = x * 2.0
            else:
                out[:] = x * 3.0

    for flag, factor in [(True, 2), (0, 3), (np.bool_(1), 2), (1.0, 2)]:
        np.testing.assert_array_equal(kernel(ones, flag), ones * factor)
    for wrong in (2, 0.5, -1, np.int8(3)):
        with pytest.raises((errors.RangeError, errors.ArgumentError), match="`flag`"):
            kernel(ones, wrong)
