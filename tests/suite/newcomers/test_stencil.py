"""The five-point stencil: tiles are loaded with a halo of one cell, which is 0 outside the array."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on

ROWS, COLUMNS = 32, 64


@pl.jit
def laplace(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    h, w = x.shape
    for i, j in pl.spmd((pl.cdiv(h, ROWS), pl.cdiv(w, COLUMNS))):
        t = pl.load(x, [i * ROWS - 1, j * COLUMNS - 1], [ROWS + 2, COLUMNS + 2], pad=0.0)
        s = t[:-2, 1:-1] + t[2:, 1:-1] + t[1:-1, :-2] + t[1:-1, 2:] - 4.0 * t[1:-1, 1:-1]
        pl.store(s, [i * ROWS, j * COLUMNS], out, clamp=True)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("shape", [(100, 130), (32, 64), (5, 3)])
def test_neighbours_outside_are_zero(platform: str, shape: tuple[int, int]) -> None:
    x = data(*shape)
    p, out = np.pad(x, 1), np.empty_like(x)
    laplace(x, out, config=on(platform))
    expected = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * x
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
