"""Accelerations of bodies that attract each other: all pairs by broadcasting."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import DTYPES, PLATFORMS, data, on


@pl.jit
def accelerations(place: pl.Tensor, turned: pl.Tensor, mass: pl.Tensor, out: pl.Out[pl.Tensor], softening: float = 0.01):
    """place: [bodies, 3], turned: [3, bodies], mass: [1, bodies]."""
    with pl.at(level=pl.Level.CORE_GROUP):
        apart = [turned[axis : axis + 1, :] - place[:, axis : axis + 1] for axis in range(3)]
        distance = apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2] + softening
        pull = mass * pl.rsqrt(distance) / distance
        for axis in (0, 1, 2):
            out[:, axis : axis + 1] = pl.row_sum(apart[axis] * pull)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_body_is_pulled_by_all(platform: str, dtype: str) -> None:
    place, mass = data(37, 3).astype(dtype), np.abs(data(1, 37, seed=1)).astype(dtype)
    apart = place[None].astype(np.float64) - place[:, None]
    distance = (apart**2).sum(2) + 0.01
    want = (apart * (mass[0] / distance**1.5)[..., None]).sum(1)
    out = np.empty_like(place)
    accelerations(place, np.ascontiguousarray(place.T), mass, out, config=on(platform))
    np.testing.assert_allclose(out, want, rtol=1e-11 if dtype == "float64" else 1e-3, atol=1e-11 if dtype == "float64" else 1e-3)
