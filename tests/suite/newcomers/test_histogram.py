"""How many numbers lie in each part of a range, and how often each integer occurs."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on


@pl.jit
def histogram(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.histogram(x, 20, -2.0, 2.5)


@pl.jit
def letters(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.bincount(x, 256)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_counts_are_numpys(platform: str) -> None:
    x = data(30, 41)
    x[0, :3] = np.inf, -2.0, 2.5
    np.testing.assert_array_equal(histogram(x, config=on(platform)), np.histogram(x, 20, (-2.0, 2.5))[0])
    text = np.random.default_rng(1).integers(0, 256, 5000).astype(np.uint8)
    np.testing.assert_array_equal(letters(text, config=on(platform)), np.bincount(text, minlength=256))
