"""Sorting of rows of any length, and where each element was."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on


@pl.jit
def sort(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.sort(x)


@pl.jit
def order(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.argsort(x, descending=True)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("count", [1000, 100_000])
def test_elements_are_in_order(platform: str, count: int) -> None:
    x = data(count)
    np.testing.assert_array_equal(sort(x, config=on(platform)), np.sort(x))
    np.testing.assert_array_equal(order(x, config=on(platform)), np.argsort(-x, kind="stable"))
