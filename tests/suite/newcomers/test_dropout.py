"""Triton's fourth tutorial: dropout whose mask is made of a seed, and made again for the gradient."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on


@pl.jit(runtime_scalars=("seed",))
def dropout(x: pl.Tensor, seed: pl.INT32, p: float, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        bits = pl.random(seed, 0, 0, 0, 0, 0, x.shape)
        uniform = pl.cast(pl.shr(bits, 8), pl.FP32) * 2.0**-24
        out[:] = pl.where(uniform > p, x * (1.0 / (1.0 - p)), 0.0)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_seed_decides_what_is_kept(platform: str) -> None:
    x = data(64, 100) + 3
    first, again, other = (dropout(x, seed, 0.25, config=on(platform)) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    kept = first != 0
    assert abs(kept.mean() - 0.75) < 0.03
    np.testing.assert_allclose(first[kept], x[kept] / 0.75, rtol=1e-6)
