"""Radix-2 FFTs in complex numbers, and one made of two products."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.fft import N, butterflies, products, reversed_bits
from tests.suite.newcomers.platforms import PLATFORMS, data, on


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("kernel", [butterflies, reversed_bits, products], ids=["butterflies", "reversed bits", "products"])
def test_the_transform_is_numpys(kernel: pl.JITFunction, platform: str) -> None:
    x = (data(6, N) + 1j * data(6, N, seed=1)).astype(np.complex64)
    found = kernel(x, config=on(platform))
    assert found.dtype == np.complex64
    np.testing.assert_allclose(found, np.fft.fft(x), rtol=1e-4, atol=1e-4)
