"""Jacobi's iteration for the temperature of a plate, in double precision."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import DTYPES, PLATFORMS, data, on


@pl.jit
def jacobi(u: pl.InOut[pl.Tensor], next: pl.InOut[pl.Tensor], steps: pl.constexpr[int]):
    rows, columns = u.shape
    for _ in pl.range(steps):
        next[1 : rows - 1, 1 : columns - 1] = 0.25 * (
            u[0 : rows - 2, 1 : columns - 1] + u[2:rows, 1 : columns - 1] + u[1 : rows - 1, 0 : columns - 2] + u[1 : rows - 1, 2:columns]
        )
        u[1 : rows - 1, 1 : columns - 1] = next[1 : rows - 1, 1 : columns - 1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_it_is_the_iteration_of_numpy(platform: str, dtype: str) -> None:
    start = data(21, 34).astype(dtype)
    u, work, want = start.copy(), np.zeros_like(start), start.copy()
    jacobi(u, work, 7, config=on(platform))
    for _ in range(7):
        want[1:-1, 1:-1] = 0.25 * (want[:-2, 1:-1] + want[2:, 1:-1] + want[1:-1, :-2] + want[1:-1, 2:])
    np.testing.assert_allclose(u, want, rtol=1e-13 if dtype == "float64" else 1e-4, atol=1e-6 if dtype == "float32" else 1e-15)
