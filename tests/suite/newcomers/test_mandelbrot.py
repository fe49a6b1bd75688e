"""The Mandelbrot set: every tile counts how long its points stay, and stops when all have left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import DTYPES, PLATFORMS, on


@pl.jit
def mandelbrot(re: pl.Tensor, im: pl.Tensor, limit: pl.constexpr[int], out: pl.Out[pl.Tensor]):
    block = 8
    for i in pl.spmd(im.shape[0] // block):
        with pl.at(level=pl.Level.CORE_GROUP):
            cy = pl.row_expand(pl.tile.full([block, re.shape[1]], re.dtype, 0.0), pl.load(im, [i * block, 0], [block, 1]))
            cx = pl.col_expand(cy, pl.load(re, [0, 0], [1, re.shape[1]]))
            x, y, count = cx, cy, cx * 0.0
            for _ in pl.range(limit):
                stays = x * x + y * y <= 4.0
                count = pl.where(stays, count + 1.0, count)
                x, y = pl.where(stays, x * x - y * y + cx, x), pl.where(stays, 2.0 * x * y + cy, y)
            pl.store(count, [i * block, 0], out)


def counted(re: Any, im: Any, limit: int) -> Any:
    c = re + 1j * im
    z, count = c.copy(), np.zeros(c.shape)
    for _ in range(limit):
        stays = z.real * z.real + z.imag * z.imag <= 4
        count += stays
        z = np.where(stays, z * z + c, z)
    return count


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_points_stay_as_long_as_in_numpy(platform: str, dtype: str) -> None:
    re, im = np.linspace(-2.2, 0.8, 40, dtype=dtype)[None], np.linspace(-1.3, 1.3, 24, dtype=dtype)[:, None]
    got, want = mandelbrot(re, im, 30, config=on(platform)), counted(re, im, 30)
    assert got.dtype == np.dtype(dtype)
    # Points on the border may leave a step earlier or later.
    assert (got != want).mean() < (0.03 if dtype == "float32" else 0.01)
    assert len(np.unique(got)) > 2 and got.max() == 30
