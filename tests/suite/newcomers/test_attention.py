"""Triton's sixth tutorial: fused attention with a running maximum, causal or not."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on


@pl.jit
def attention(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, causal: bool, out: pl.Out[pl.Tensor], block: pl.constexpr[int] = 32):
    n, d = q.shape
    for i in pl.spmd(n // block):
        tile = q[i * block : i * block + block, :] * (1.0 / d**0.5)
        m = pl.full([block, 1], pl.FP32, -1e30)
        total = pl.full([block, 1], pl.FP32, 0.0)
        acc = pl.full([block, d], pl.FP32, 0.0)
        for j in pl.range(i + 1 if causal else n // block):
            s = pl.matmul(tile, k[j * block : j * block + block, :], b_trans=True)
            if causal:
                rows = pl.transpose(pl.tensor.arange(i * block, [1, block]), 0, 1)
                s = pl.where(pl.tensor.arange(j * block, [1, block]) > rows, -1e30, s)
            new = pl.maximum(m, pl.row_max(s))
            p = pl.exp(s - new)
            scale = pl.exp(m - new)
            total = total * scale + pl.row_sum(p)
            acc = acc * scale + pl.matmul(p, v[j * block : j * block + block, :])
            m = new
        out[i * block : i * block + block, :] = acc / total


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_it_is_softmax_of_scores_times_values(platform: str, causal: bool) -> None:
    q, k, v = (data(96, 16, seed=seed) for seed in range(3))
    s = q @ k.T / 4 + (np.triu(np.full((96, 96), -np.inf, np.float32), 1) if causal else 0)
    p = np.exp(s - s.max(1, keepdims=True))
    np.testing.assert_allclose(attention(q, k, v, causal, config=on(platform)), p / p.sum(1, keepdims=True) @ v, rtol=1e-4, atol=1e-5)
