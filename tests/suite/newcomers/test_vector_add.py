"""Triton's first tutorial: vector addition, as whole tensors and in blocks with a ragged end."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on


@pl.jit
def add(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x + y


@pl.jit
def add_blocks(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor], block: pl.constexpr[int] = 256):
    n = x.shape[1]
    for i in pl.spmd((n + block - 1) // block):
        a = pl.load(x, [0, i * block], [1, block], clamp=True)
        b = pl.load(y, [0, i * block], [1, block], clamp=True)
        pl.store(a + b, [0, i * block], out)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_sums(platform: str) -> None:
    x, y = data(1, 1000), data(1, 1000, seed=1)
    np.testing.assert_allclose(add(x, y, config=on(platform)), x + y, rtol=1e-6)
    for block in (256, 1000):
        out = np.empty_like(x)
        add_blocks(x, y, out, block, config=on(platform))
        np.testing.assert_allclose(out, x + y, rtol=1e-6)
