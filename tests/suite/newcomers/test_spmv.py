"""A sparse matrix times a vector, rows compressed."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on


@pl.jit
def spmv(start: pl.Tensor, column: pl.Tensor, value: pl.Tensor, x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for row in pl.range(start.shape[0] - 1):
            total = 0.0
            for k in pl.range(start[row], start[row + 1]):
                total = total + value[k] * x[column[k]]
            out[row] = total


@pytest.mark.parametrize("platform", PLATFORMS)
def test_it_is_the_dense_product(platform: str) -> None:
    random = np.random.default_rng(0)
    dense = data(30, 40) * (random.random((30, 40)) < 0.2)
    rows, columns = np.nonzero(dense)
    start = np.searchsorted(rows, np.arange(31)).astype(np.int32)
    x = data(40, seed=1)
    found = spmv(start, columns.astype(np.int32), dense[rows, columns], x, config=on(platform))
    np.testing.assert_allclose(found, dense @ x, rtol=1e-4, atol=1e-5)
