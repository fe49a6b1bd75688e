"""A box blur: the mean of the cells around each one, the edge repeated by none."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on

R = 2


@pl.jit
def blur(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    h, w = x.shape
    for i, j in pl.spmd((pl.cdiv(h, 32), pl.cdiv(w, 32))):
        t = pl.load(x, [i * 32 - R, j * 32 - R], [32 + 2 * R, 32 + 2 * R], pad=0.0)
        s = pl.tile.zeros([32, 32])
        for dy in pl.unroll(2 * R + 1):
            for dx in pl.unroll(2 * R + 1):
                s = s + t[dy : dy + 32, dx : dx + 32]
        pl.store(s / ((2 * R + 1) * (2 * R + 1)), [i * 32, j * 32], out, clamp=True)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_each_cell_is_the_mean_around_it(platform: str) -> None:
    x = data(45, 70)
    p, out = np.pad(x, R), np.empty_like(x)
    blur(x, out, config=on(platform))
    expected = sum(p[dy : dy + 45, dx : dx + 70] for dy in range(5) for dx in range(5)) / 25
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
