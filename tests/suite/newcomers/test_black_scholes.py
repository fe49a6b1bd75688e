"""Prices of options by the formula of Black and Scholes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import DTYPES, PLATFORMS, on


@pl.jit.inline
def normal(x: pl.Tensor):
    return 0.5 + 0.5 * pl.erf(x * 0.7071067811865476)


@pl.jit
def prices(spot: pl.Tensor, strike: pl.Tensor, years: pl.Tensor, rate: float, volatility: float):
    spread = volatility * pl.sqrt(years)
    high = (pl.log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / spread
    low = high - spread
    worth = strike * pl.exp(years * -rate)
    call = spot * normal(high) - worth * normal(low)
    return call, call - spot + worth


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_prices_are_those_of_the_formula(platform: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    spot, strike, years = (rng.uniform(low, high, (13, 29)).astype(dtype) for low, high in ((5, 30), (1, 100), (0.25, 10)))
    call, put = prices(spot, strike, years, 0.02, 0.3, config=on(platform))

    def phi(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2))

    for s, k, t, c, p in zip(spot.ravel(), strike.ravel(), years.ravel(), call.ravel(), put.ravel(), strict=True):
        s, k, t = float(s), float(k), float(t)
        high = (math.log(s / k) + (0.02 + 0.045) * t) / (0.3 * math.sqrt(t))
        worth = k * math.exp(-0.02 * t)
        want = s * phi(high) - worth * phi(high - 0.3 * math.sqrt(t))
        limit = 1e-12 if dtype == "float64" else 2e-4
        assert abs(c - want) < limit * 30 and abs(p - (want - s + worth)) < limit * 100
