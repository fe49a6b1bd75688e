"""Convolution of images, by shifted sums and by one product of gathered windows."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on


@pl.jit
def direct(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    """One channel; the taps are read while the kernel runs, the loops over them are expanded."""
    (h, v), (r, s) = x.shape, w.shape
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = x[0 : h - r + 1, 0 : v - s + 1] * w[0, 0]
        for i, j in [(i, j) for i in range(r) for j in range(s)][1:]:
            acc = acc + x[i : h - r + 1 + i, j : v - s + 1 + j] * w[i, j]
        out[:] = acc


@pl.jit
def im2col(x: pl.Tensor, w: pl.Tensor, size: pl.constexpr[int], out: pl.Out[pl.Tensor]):
    """x: [channels * height, width], w: [filters, channels * size * size]; columns of the product are windows."""
    height, width = x.shape
    channels = w.shape[1] // size**2
    h, rows, columns = height // channels, height // channels - size + 1, width - size + 1
    with pl.at(level=pl.Level.CORE_GROUP):
        windows = [x[c * h + i : c * h + i + rows, j : j + columns] for c in range(channels) for i in range(size) for j in range(size)]
        gathered = pl.create_tensor([channels * size * size, rows * columns], dtype=pl.FP32)
        for k, window in enumerate(windows):
            gathered[k : k + 1, :] = pl.reshape(window, [1, rows * columns])
        out[:] = pl.matmul(w, gathered)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_both_are_correlations(platform: str) -> None:
    x, w = data(12, 17), data(3, 5, seed=1)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 5))
    np.testing.assert_allclose(direct(x, w, config=on(platform)), (windows * w).sum((2, 3)), rtol=1e-4, atol=1e-5)

    image, filters = data(3, 9, 8, seed=2), data(4, 3, 3, 3, seed=3)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(1, 2))
    want = np.einsum("chwij,fcij->fhw", windows, filters)
    found = im2col(image.reshape(27, 8), filters.reshape(4, 27), 3, config=on(platform))
    np.testing.assert_allclose(found.reshape(want.shape), want, rtol=1e-4, atol=1e-4)
