"""Cholesky factors of a batch of small matrices, one block each."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import DTYPES, PLATFORMS, data, on


@pl.jit
def cholesky(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    """a and out: [batch * n, n]."""
    n = a.shape[1]
    for b in pl.spmd(a.shape[0] // n):
        for j in pl.range(n):
            for i in pl.range(n):
                total = a[b * n + i, j]
                for k in pl.range(j):
                    total = total - out[b * n + i, k] * out[b * n + j, k]
                if i == j:
                    out[b * n + i, j] = pl.sqrt(total)
                if i < j:
                    out[b * n + i, j] = 0.0
            for i in pl.range(j + 1, n):
                total = a[b * n + i, j]
                for k in pl.range(j):
                    total = total - out[b * n + i, k] * out[b * n + j, k]
                out[b * n + i, j] = total / out[b * n + j, j]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_factors_are_those_of_numpy(platform: str, dtype: str) -> None:
    half = data(4, 6, 6).astype(dtype)
    a = (half @ half.transpose(0, 2, 1) + 6 * np.eye(6)).astype(dtype)
    out = np.empty((24, 6), dtype)
    cholesky(np.ascontiguousarray(a.reshape(24, 6)), out, config=on(platform))
    np.testing.assert_allclose(out.reshape(4, 6, 6), np.linalg.cholesky(a), rtol=0, atol=1e-13 if dtype == "float64" else 1e-5)
