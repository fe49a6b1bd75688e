"""Triton's second tutorial: a softmax that reads and writes each row once."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, PRECISIONS, data, on


@pl.jit
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(x - pl.row_max(x))
        out[:] = e / pl.row_sum(e)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_rows_sum_to_one(platform: str, dtype: str, tolerance: float) -> None:
    x = data(37, 781, dtype=dtype)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(softmax(x, config=on(platform)), e / e.sum(1, keepdims=True), rtol=tolerance, atol=tolerance / 100)
