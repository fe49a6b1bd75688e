"""Triton's third tutorial: a blocked matrix product with an activation that the caller chooses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on


@pl.jit.inline
def leaky_relu(x: Any):
    return pl.maximum(x, x * 0.01)


@pl.jit
def matmul(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor], block: pl.constexpr[tuple[int, int, int]] = (32, 32, 32), activation: Any = None):
    (m, k), n = a.shape, b.shape[1]
    bm, bn, bk = block
    for i in pl.spmd(m // bm):
        for j in pl.range(n // bn):
            acc = pl.matmul(pl.load(a, [i * bm, 0], [bm, bk]), pl.load(b, [0, j * bn], [bk, bn]))
            for p in pl.range(1, k // bk):
                acc = pl.matmul_acc(acc, pl.load(a, [i * bm, p * bk], [bm, bk]), pl.load(b, [p * bk, j * bn], [bk, bn]))
            pl.store(acc if activation is None else activation(acc), [i * bm, j * bn], c)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_products(platform: str) -> None:
    a, b = data(64, 96), data(96, 128, seed=1)
    want = a @ b
    np.testing.assert_allclose(matmul(a, b, config=on(platform)), want, rtol=1e-4, atol=1e-4)
    found = matmul(a, b, block=(64, 64, 48), activation=leaky_relu, config=on(platform))
    np.testing.assert_allclose(found, np.where(want > 0, want, 0.01 * want), rtol=1e-4, atol=1e-4)
