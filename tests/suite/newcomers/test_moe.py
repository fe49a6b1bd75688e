"""A mixture of experts: the gate takes the two best, every token goes through its experts, weighted."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on


@pl.jit
def moe(x: pl.Tensor, gate: pl.Tensor, experts: list[pl.Tensor], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s = pl.matmul(x, gate)
        first = pl.row_max(s)
        rest = pl.where(s >= first, -1e30, s)
        kept = pl.where(s >= pl.row_max(rest), pl.exp(s - first), 0.0)
        weights = kept / pl.row_sum(kept)
        y = pl.matmul(x, experts[0]) * weights[:, 0:1]
        for i, w in enumerate(experts[1:], 1):
            y = y + pl.matmul(x, w) * weights[:, i : i + 1]
        out[:] = y


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_two_best_experts_count(platform: str) -> None:
    x, gate = data(24, 16), data(16, 4, seed=1)
    experts = [data(16, 8, seed=seed) for seed in range(2, 6)]
    s = x @ gate
    want = np.zeros((24, 8))
    for token in range(24):
        best = np.argsort(s[token])[-2:]
        p = np.exp(s[token, best] - s[token].max())
        want[token] = sum(weight * (x[token] @ experts[i]) for weight, i in zip(p / p.sum(), best, strict=True))
    np.testing.assert_allclose(moe(x, gate, experts, config=on(platform)), want, rtol=1e-4, atol=1e-4)
