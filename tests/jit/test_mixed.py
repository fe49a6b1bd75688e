"""Kernels that use what is not written with `@pl.jit`: inline functions, module-level functions, Python functions, classes."""

from __future__ import annotations

import functools
import math
import warnings

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import ir
from tilejit.jit.function import JITFunction

pytestmark = pytest.mark.dispatch
x44 = np.random.default_rng(8).standard_normal((4, 4)).astype(np.float32)


@pl.inline
def positive(t):  # pyright: ignore[reportMissingParameterType]
    return pl.maximum(t, 0.0)


@pl.function(type=pl.FunctionType.InCore)
def doubled(x: pl.Tensor[[4, 4], pl.FP32], out: pl.Out[pl.Tensor[[4, 4], pl.FP32]]) -> pl.Tensor[[4, 4], pl.FP32]:
    out[:] = pl.add(x, x)
    return out


@pl.function(type=pl.FunctionType.Inline)
def plus(t, number):  # pyright: ignore[reportMissingParameterType]
    return pl.add(t, number)


@pl.function(type=pl.FunctionType.InCore)
def plus_one(x: pl.Tensor[[4, 4], pl.FP32], out: pl.Out[pl.Tensor[[4, 4], pl.FP32]]):
    pl.store(plus(pl.load(x, [0, 0], [4, 4]), 1.0), [0, 0], out)


@pl.jit
def plus_three(x: pl.Tensor[[4, 4], pl.FP32], out: pl.Out[pl.Tensor[[4, 4], pl.FP32]]):
    plus_one(x, out)
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(plus(pl.load(out, [0, 0], [4, 4]), 2.0), [0, 0], out)


def test_module_level_inline_functions_are_helpers(platform: str) -> None:
    np.testing.assert_allclose(plus_three(x44), x44 + 3, rtol=1e-6)
    text_is_the_program(plus_three, x44)


@pl.jit
def started(x: pl.Tensor[[4, 4], pl.FP32], out: pl.Out[pl.Tensor[[4, 4], pl.FP32]]):
    twice, first = pl.submit(doubled, x)
    out, last = pl.submit(doubled, twice, out, deps=[first])
    pl.submit(plus_one, out, out, deps=[last])
    return out


def test_module_level_functions_are_tasks(platform: str) -> None:
    np.testing.assert_allclose(started(x44), 4 * x44 + 1, rtol=1e-6)
    text_is_the_program(started, x44)


def size_of(kernel: object) -> int:
    return len(str(kernel))


@pl.jit
def told(x: pl.Tensor[[4, 4], pl.FP32], out: pl.Out[pl.Tensor[[4, 4], pl.FP32]]):
    size = size_of(doubled)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + float(size)


def test_a_python_function_may_be_given_a_module_level_function(platform: str) -> None:
    np.testing.assert_allclose(told(x44), x44 + len(str(doubled)), rtol=1e-6)


def width(step: int) -> int:
    return 2**step


half = functools.partial(math.pow, 2.0)


@pl.jit
def mixture(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    tmp = pl.create_tensor([4, 4], dtype=pl.FP32)
    tmp = doubled(x, tmp)
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(tmp, [0, 0], [4, 4])
        for step in pl.unroll(3):
            t = pl.add(t, width(step))
        pl.store(positive(pl.mul(t, half(-1))), [0, 0], out)
    return out


def text_is_the_program(kernel: JITFunction, *args: object) -> str:
    source = kernel.specialized_source(*args)
    compiled = kernel.compile(*args)
    assert isinstance(compiled.program, ir.Program)
    ir.assert_structural_equal(pl.parse(source), compiled.program)
    return source


def test_inline_functions_module_functions_and_python_functions_mix(platform: str) -> None:
    np.testing.assert_allclose(mixture(x44), np.maximum((2 * x44 + 7) / 2, 0), rtol=1e-6)


def test_the_text_of_a_mixture_stands_on_its_own() -> None:
    source = text_is_the_program(mixture, x44, x44.copy())
    assert "@pl.function(type=pl.FunctionType.InCore)\ndef doubled(" in source
    assert "def positive(self, t: pl.Tile[[4, 4], pl.FP32]):" in source
    assert "pl.store(self.positive(pl.mul(t, 0.5)), [0, 0], out)" in source


@pl.jit.inline
def shifted(t: pl.Tensor, by: pl.INDEX):
    return pl.add(t, by)


def test_helpers_in_an_unrolled_loop_get_the_number_of_the_turn(platform: str) -> None:
    @pl.jit
    def turns(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = x * 1.0
            for i in pl.unroll(1, 4):
                t = shifted(t, i * 10)
            out[:] = t
        return out

    np.testing.assert_allclose(turns(x44), x44 + 60, rtol=1e-6)
    source = text_is_the_program(turns, x44)
    assert [name for name in ("shifted", "shifted_1", "shifted_2") if f"def {name}(" in source] == ["shifted", "shifted_1", "shifted_2"]


def test_half_precision_scalars_keep_their_type(platform: str) -> None:
    """A bare literal is FP32 and would widen the whole expression."""

    @pl.jit
    def scaled(x: pl.Tensor, alpha: pl.FP16, out: pl.Out[pl.Tensor]):
        out[:] = x * alpha
        return out

    x = x44.astype(np.float16)
    out = scaled(x, 0.3)
    assert isinstance(out, np.ndarray)
    assert out.dtype == np.float16
    np.testing.assert_array_equal(out, x * np.float16(0.3))
    assert "pl.const(0.300048828125, pl.FP16)" in text_is_the_program(scaled, x, 0.3)


class Base:
    factor = 3.0

    @classmethod
    @pl.jit
    def scale(cls, x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = x * cls.factor
        return out


class Derived(Base):
    factor = 5.0


def test_class_methods_read_the_class_they_are_called_on(platform: str) -> None:
    np.testing.assert_array_equal(Base.scale(x44), x44 * 3)
    np.testing.assert_array_equal(Derived.scale(x44), x44 * 5)
    np.testing.assert_array_equal(Base.scale(x44), x44 * 3)


def test_outputs_of_an_inline_helper_are_deprecated() -> None:
    @pl.jit.inline
    def into(x: pl.Tensor, target: pl.Out[pl.Tensor]):
        target[:] = x
        return target

    @pl.jit
    def uses(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out = into(x, out)
        return out

    with pytest.warns(DeprecationWarning, match=r"`target` of the inline function `into`: pl\.Out is deprecated"):
        source = uses.specialized_source(x44, x44.copy())
    assert "def into(self, x: pl.Tensor[[4, 4], pl.FP32], target: pl.Tensor[[4, 4], pl.FP32])" in source
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uses.specialized_source(x44, x44.copy())


def decorated(function):  # type: ignore[no-untyped-def]  # pyright: ignore[reportMissingParameterType]
    @functools.wraps(function)
    def wrapper(*args: object) -> object:
        return function(*args)

    return wrapper


def test_wrapped_functions_are_looked_through(platform: str) -> None:
    @pl.jit
    @decorated
    def wrapped(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = x * 4.0
        return out

    assert wrapped.__name__ == "wrapped"
    np.testing.assert_array_equal(wrapped(x44), x44 * 4)


def test_captured_numpy_scalars_and_enums_become_literals(platform: str) -> None:
    import enum

    class Size(enum.IntEnum):
        ROWS = 4

    offset = np.float32(0.25)

    @pl.jit
    def captured(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [Size.ROWS, 4])
            pl.store(pl.add(t, offset), [0, 0], out)
        return out

    np.testing.assert_array_equal(captured(x44), x44 + np.float32(0.25))
    assert "[4, 4])" in text_is_the_program(captured, x44)
