"""Cross entropy of logits and labels, which torch and NumPy have as int64."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on


@pl.jit
def cross_entropy(logits: pl.Tensor, labels: pl.Tensor, loss: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        top = pl.row_max(logits)
        picked = pl.gather(logits, 1, pl.cast(labels, pl.INT32))
        loss[:] = pl.log(pl.row_sum(pl.exp(logits - top))) + top - picked


@pytest.mark.parametrize("platform", PLATFORMS)
def test_loss_of_every_row(platform: str) -> None:
    logits, labels = data(20, 33) * 4, np.random.default_rng(1).integers(0, 33, (20, 1))
    assert labels.dtype == np.int64
    top = logits.max(1, keepdims=True)
    want = np.log(np.exp(logits - top).sum(1, keepdims=True)) + top - np.take_along_axis(logits, labels, 1)
    np.testing.assert_allclose(cross_entropy(logits, labels, config=on(platform)), want, rtol=1e-5, atol=1e-5)
