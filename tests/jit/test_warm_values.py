"""Warm calls of kernels whose arguments differ in values that the program does not depend on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl

pytestmark = pytest.mark.dispatch


@pl.jit
def ignoring(x: pl.Tensor, out: pl.Out[pl.Tensor], unused: object = None):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + 1.0


@pytest.mark.parametrize("fast", ["1", "0"])
def test_values_that_lead_to_one_program_all_have_a_warm_way(fast: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", fast)
    ignoring.cache_clear()
    x, out = np.ones((2, 3), np.float32), np.empty((2, 3), np.float32)
    for value in (1, 2, 2.0, -0.0, 0.0, "a", "b", True, None):
        for _ in range(3):
            ignoring(x, out, value)
        before = ignoring._warm.all_hits if ignoring._warm is not None else 0
        ignoring(x, out, value)
        assert ignoring._warm is not None and ignoring._warm.all_hits == before + 1, value
    assert ignoring.cache_info().entries == 1


NUMBER = np.array(3)


@pl.jit
def by_default(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.INT32 = NUMBER):  # type: ignore[assignment]
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * pl.cast(n, pl.FP32)


@pl.jit(on_drift="recompile")
def by_constant_default(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.constexpr[Any] = NUMBER):  # type: ignore[assignment]
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * float(n)


@pytest.mark.parametrize("fast", ["1", "0"])
@pytest.mark.parametrize("kernel", [by_default, by_constant_default], ids=lambda kernel: kernel.definition.name)
def test_a_default_that_is_an_array_is_the_number_that_it_holds_now(kernel: Any, fast: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", fast)
    x, out = np.ones((2, 3), np.float32), np.empty((2, 3), np.float32)
    for number in (3, 3, 3, 3, 9, 9, 9, 3):
        NUMBER[...] = number
        kernel(x, out)
        np.testing.assert_array_equal(out, number * x)
        np.testing.assert_array_equal(kernel(x), number * x)
