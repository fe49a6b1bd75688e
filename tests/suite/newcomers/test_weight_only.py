"""Products with weights of 8 and of 4 bits, scaled by column; two of 4 bits share a byte."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on


@pl.jit
def int8(x: pl.Tensor, w: pl.Tensor, scale: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(x, pl.cast(w, pl.FP32)) * scale


@pl.jit
def int4(x: pl.Tensor, packed: pl.Tensor, scale: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows = packed.shape[0]
    with pl.at(level=pl.Level.CORE_GROUP):
        q = pl.cast(packed, pl.INT32)
        low, high = pl.cast(pl.and_(q, 15), pl.FP32) - 8.0, pl.cast(pl.shr(q, 4), pl.FP32) - 8.0
        out[:] = (pl.matmul(x[:, :rows], low) + pl.matmul(x[:, rows:], high)) * scale


@pytest.mark.parametrize("platform", PLATFORMS)
def test_products_are_those_of_the_weights_that_are_meant(platform: str) -> None:
    random = np.random.default_rng(0)
    x, scale = data(5, 64), data(1, 24, seed=1)
    w = random.integers(-128, 128, (64, 24)).astype(np.int8)
    np.testing.assert_allclose(int8(x, w, scale, config=on(platform)), x @ w.astype(np.float32) * scale, rtol=1e-4, atol=1e-2)
    q = random.integers(0, 16, (64, 24)).astype(np.uint8)
    packed = q[:32] | (q[32:] << 4)
    np.testing.assert_allclose(int4(x, packed, scale, config=on(platform)), x @ (q.astype(np.float32) - 8) * scale, rtol=1e-4, atol=1e-3)
