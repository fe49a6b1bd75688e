"""Running sums along any axis, and sums of segments given by a number for each element."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on


@pl.jit
def running(x: pl.Tensor, rows: pl.Out[pl.Tensor], columns: pl.Out[pl.Tensor]):
    rows[:] = x.cumsum(axis=1)
    columns[:] = x.cumsum(axis=0)


@pl.jit
def segmented(x: pl.Tensor, segment: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.bincount(segment, 7, weights=x)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_sums_are_numpys(platform: str) -> None:
    x = data(13, 50)
    rows, columns = running(x, config=on(platform))
    np.testing.assert_allclose(rows, x.cumsum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(columns, x.cumsum(0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_segments_are_summed_apart(platform: str) -> None:
    x, segment = data(400), np.random.default_rng(3).integers(0, 7, 400)
    np.testing.assert_allclose(segmented(x, segment, config=on(platform)), np.bincount(segment, x, 7), rtol=1e-4, atol=1e-4)
