"""One step of k-means: nearest centres, and the means of what belongs to each."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, PRECISIONS, data, on


@pl.jit
def step(x: pl.Tensor, centres: pl.Tensor, means: pl.Out[pl.Tensor], labels: pl.Out[pl.Tensor]):
    k = centres.shape[0]
    with pl.at(level=pl.Level.CORE_GROUP):
        d = pl.matmul(x, pl.transpose(centres, 0, 1)) * -2.0 + pl.transpose(pl.row_sum(centres * centres), 0, 1)
        nearest = pl.row_argmin(d)
        labels[:] = nearest
        member = pl.where(pl.arange(0, [1, k]) == nearest, 1.0, 0.0)
        means[:] = pl.matmul(pl.transpose(member, 0, 1), x) / pl.maximum(pl.transpose(pl.col_sum(member), 0, 1), 1.0)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_means_of_the_nearest(platform: str, dtype: str, tolerance: float) -> None:
    x, centres = data(200, 6, dtype=dtype), data(5, 6, seed=1, dtype=dtype)
    labels = ((x[:, None] - centres) ** 2).sum(2).argmin(1)
    want = np.stack([x[labels == k].mean(0) for k in range(5)])
    means, found = step(x, centres, config=on(platform))
    np.testing.assert_array_equal(found[:, 0], labels)
    np.testing.assert_allclose(means, want, rtol=10 * tolerance, atol=tolerance)
