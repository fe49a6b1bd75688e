"""A bilateral filter: neighbours count by how near and how alike they are."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import DTYPES, PLATFORMS, data, on


@pl.jit
def bilateral(x: pl.Tensor, radius: pl.constexpr[int], out: pl.Out[pl.Tensor]):
    rows, columns = x.shape[0] - 2 * radius, x.shape[1] - 2 * radius
    with pl.at(level=pl.Level.CORE_GROUP):
        middle = x[radius : radius + rows, radius : radius + columns]
        total, weights = middle, middle * 0.0 + 1.0
        for i, j in [(i, j) for i in range(2 * radius + 1) for j in range(2 * radius + 1) if (i, j) != (radius, radius)]:
            other = x[i : i + rows, j : j + columns]
            apart = other - middle
            weight = pl.exp(apart * apart * -2.0) * math.exp(-0.5 * ((i - radius) ** 2 + (j - radius) ** 2))
            total, weights = total + other * weight, weights + weight
        out[:] = total / weights


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_it_is_a_weighted_mean_of_the_neighbours(platform: str, dtype: str) -> None:
    x = data(17, 22).astype(dtype)
    windows = np.lib.stride_tricks.sliding_window_view(x, (5, 5)).astype(np.float64)
    near = np.exp(-0.5 * np.add.outer(np.arange(-2, 3) ** 2, np.arange(-2, 3) ** 2))
    weights = near * np.exp(-2 * (windows - windows[:, :, 2:3, 2:3]) ** 2)
    want = (windows * weights).sum((2, 3)) / weights.sum((2, 3))
    np.testing.assert_allclose(bilateral(x, 2, config=on(platform)), want, rtol=0, atol=1e-13 if dtype == "float64" else 1e-5)
