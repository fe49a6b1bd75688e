"""Kernels and the language stay what they are, whatever takes over their attributes or their names."""

from __future__ import annotations

import functools
import types
from typing import Any, cast

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.conftest import MakeKernel

TWOS = np.full((4, 8), 2, np.float32)


@pytest.mark.dispatch
def test_a_kernel_that_takes_over_the_attributes_of_another_stays_itself() -> None:
    @pl.jit
    def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        """Twice as much."""
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * 2.0

    @functools.wraps(doubled)
    @pl.jit
    def above(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * 3.0

    @pl.jit
    @functools.wraps(doubled)
    def below(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            doubled(x, out)
            out[:] = out + 2.0

    kernels: dict[Any, float] = {above: 3, below: 4, pl.jit(cast("Any", above)): 3, doubled: 2}
    x = np.ones((4, 8), np.float32)
    for _ in range(2):
        for kernel, wanted in kernels.items():
            assert [float(kernel(x)[0, 0]) for _ in range(5)] == [wanted] * 5
            assert kernel.compile(x).only("call")(x)[0, 0] == wanted
        for kernel in kernels:  # warm by now
            functools.update_wrapper(kernel, doubled)
            functools.update_wrapper(kernel.compile(x), doubled.compile(x))
            assert kernel.__doc__ == "Twice as much."


def test_a_tuned_kernel_that_takes_over_the_attributes_of_another_stays_itself() -> None:
    def tuned(factor: float) -> Any:
        @pl.autotune({"rows": [2, 4]}, progress=False)
        @pl.jit
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor], rows: int = 2):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = x * (factor * rows / rows)

        return kernel

    first, second = tuned(2.0), tuned(3.0)
    functools.update_wrapper(second, first)
    assert (first(TWOS)[0, 0], second(TWOS)[0, 0]) == (4, 6)


class Spy(types.ModuleType):
    """The language under its name, but for what a test sets."""

    def __getattr__(self, name: str) -> Any:
        return getattr(pl, name)


@pytest.mark.dispatch
def test_a_module_that_stands_in_for_the_language_is_another(make_kernel: MakeKernel) -> None:
    text = "@pl.jit(on_drift='recompile')\ndef k(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = pl.maximum(x, 0.5)\n"
    x, spy = np.array([[0.0, 1.0]], np.float32), Spy("tilejit.language")
    vars(spy)["maximum"] = pl.minimum
    called, ahead = make_kernel(text), make_kernel(text)
    ahead.compile(x)
    for _ in range(4):
        np.testing.assert_array_equal(called(x), [[0.5, 1.0]])
    for kernel in (called, ahead):
        kernel.definition.function.__globals__["pl"] = spy
        for _ in range(4):
            np.testing.assert_array_equal(kernel(x), [[0.0, 0.5]])
