"""Top-k sampling: the k most likely tokens, one of them drawn with the probability that softmax gives it among them."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on

K = 50


@pl.jit
def sample(logits: pl.Tensor, draw: pl.Tensor, token: pl.Out[pl.Tensor]):
    values, indices = pl.topk(logits, K)
    share = pl.softmax(values).cumsum()
    place = pl.sum(pl.cast(pl.cmp(share, draw, cmp_type=3), pl.INT32), axis=1, keepdims=True)
    token[:] = pl.gather(indices, 1, pl.clip(place, 0, K - 1))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_draws_follow_the_shares(platform: str) -> None:
    logits, draw = data(4, 32_000), np.array([[0.0], [0.3], [0.9], [0.9999999]], np.float32)
    order = np.argsort(-logits, axis=1, kind="stable")[:, :K]
    values = np.take_along_axis(logits, order, 1).astype(np.float64)
    share = np.exp(values - values.max(1, keepdims=True)).cumsum(1)
    place = np.minimum((share / share[:, -1:] <= draw).sum(1, keepdims=True), K - 1)
    got = np.empty((4, 1), np.int32)
    sample(logits, draw, got, config=on(platform))
    np.testing.assert_array_equal(got, np.take_along_axis(order, place, 1))
