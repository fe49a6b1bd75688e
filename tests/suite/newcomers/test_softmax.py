"""Triton's second tutorial: a softmax that reads and writes each row once."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on


@pl.jit
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(x - pl.row_max(x))
        out[:] = e / pl.row_sum(e)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_rows_sum_to_one(platform: str) -> None:
    x = data(37, 781)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(softmax(x, config=on(platform)), e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)
