"""A state-space model, one step after the other: h = a * h + b * x, y = sum(c * h)."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, PRECISIONS, data, on


@pl.jit
def scan(x: pl.Tensor, a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, y: pl.Out[pl.Tensor]):
    """x: [time, channels], a: [states, channels], b and c: [time, states]."""
    with pl.at(level=pl.Level.CORE_GROUP):
        h = a * 0.0
        for t in pl.range(x.shape[0]):
            h = a * h + pl.matmul(pl.transpose(b[t : t + 1, :], 0, 1), x[t : t + 1, :])
            y[t : t + 1, :] = pl.matmul(c[t : t + 1, :], h)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_states_are_carried(platform: str, dtype: str, tolerance: float) -> None:
    x, b, c = (data(40, size, seed=seed, dtype=dtype) for seed, size in enumerate((12, 4, 4)))
    a = 1 / (1 + np.exp(-data(4, 12, seed=3, dtype=dtype)))
    h, want = np.zeros((4, 12)), np.empty((40, 12))
    for t in range(40):
        h = a * h + np.outer(b[t], x[t])
        want[t] = c[t] @ h
    np.testing.assert_allclose(scan(x, a, b, c, config=on(platform)), want, rtol=10 * tolerance, atol=10 * tolerance)
