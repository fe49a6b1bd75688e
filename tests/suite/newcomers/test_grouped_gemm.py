"""Triton's last tutorials: products of a list of matrices of different sizes in one call, and a function of a library."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on


@pl.jit
def grouped(a: list[pl.Tensor], b: list[pl.Tensor], c: pl.Out[list[pl.Tensor]]):
    for x, y, z in zip(a, b, c, strict=True):
        z[:] = pl.matmul(x, y)


@pl.jit
def error_function(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.erf(x)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_product_of_the_group(platform: str) -> None:
    sizes = [(64, 32, 48), (16, 80, 24), (33, 7, 5)]
    a = [data(m, k, seed=k) for m, k, _ in sizes]
    b = [data(k, n, seed=n) for _, k, n in sizes]
    c = [np.empty((m, n), np.float32) for m, _, n in sizes]
    grouped(a, b, c, config=on(platform))
    for x, y, z in zip(a, b, c, strict=True):
        np.testing.assert_allclose(z, x @ y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_function_of_the_library(platform: str) -> None:
    x = data(5, 100)
    want = np.vectorize(math.erf)(x.astype(np.float64))
    np.testing.assert_allclose(error_function(x, config=on(platform)), want, rtol=1e-5, atol=1e-6)
