"""Rotary embedding of positions, halves rotated as LLaMA does it."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, PRECISIONS, data, on


@pl.jit
def rope(x: pl.Tensor, cos: pl.Tensor, sin: pl.Tensor, out: pl.Out[pl.Tensor]):
    half = x.shape[1] // 2
    with pl.at(level=pl.Level.CORE_GROUP):
        a, b = x[:, :half], x[:, half:]
        out[:, :half] = a * cos - b * sin
        out[:, half:] = b * cos + a * sin


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_halves_are_rotated(platform: str, dtype: str, tolerance: float) -> None:
    x = data(20, 64, dtype=dtype)
    angles = np.outer(np.arange(20), 10000.0 ** (-np.arange(32) / 32)).astype(dtype)
    cos, sin = np.cos(angles), np.sin(angles)
    rotated = np.concatenate([-x[:, 32:], x[:, :32]], 1)
    want = x * np.tile(cos, 2) + rotated * np.tile(sin, 2)
    np.testing.assert_allclose(rope(x, cos, sin, config=on(platform)), want, rtol=tolerance, atol=tolerance)
