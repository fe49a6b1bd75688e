"""A radix-2 FFT: a bit-reversed row, then log2(n) stages of butterflies, each on all pairs at once."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, data, on

N = 256
ANGLES = [np.pi / (1 << stage) for stage in range(8)]


@pl.jit
def fft(re: pl.Tensor, im: pl.Tensor, out_re: pl.Out[pl.Tensor], out_im: pl.Out[pl.Tensor]):
    rows = re.shape[0]
    # Reversing the bits of an index is a reversal of axes of extent 2.
    bits = [rows, 2, 2, 2, 2, 2, 2, 2, 2]
    order = [0, 8, 7, 6, 5, 4, 3, 2, 1]
    a = re.reshape(bits).permute(order).reshape(rows, N)
    b = im.reshape(bits).permute(order).reshape(rows, N)
    for stage in pl.unroll(8):
        half = 1 << stage
        angle = pl.arange(0.0, [1, 1, half], pl.FP32, step=-ANGLES[stage])
        c = pl.cos(angle)
        s = pl.sin(angle)
        x = a.reshape(rows, N // (2 * half), 2 * half)
        y = b.reshape(rows, N // (2 * half), 2 * half)
        u = x[:, :, half:] * c - y[:, :, half:] * s
        v = x[:, :, half:] * s + y[:, :, half:] * c
        p = pl.create_tensor([rows, N // (2 * half), 2 * half], pl.FP32)
        q = pl.create_tensor([rows, N // (2 * half), 2 * half], pl.FP32)
        p[:, :, :half] = x[:, :, :half] + u
        p[:, :, half:] = x[:, :, :half] - u
        q[:, :, :half] = y[:, :, :half] + v
        q[:, :, half:] = y[:, :, :half] - v
        a = pl.reshape(p, [rows, N])
        b = pl.reshape(q, [rows, N])
    out_re[:] = a
    out_im[:] = b


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_transform_is_numpys(platform: str) -> None:
    re, im = data(6, N), data(6, N, seed=1)
    out = [np.empty_like(re) for _ in range(2)]
    fft(re, im, *out, config=on(platform))
    expected = np.fft.fft(re + 1j * im)
    np.testing.assert_allclose(out[0] + 1j * out[1], expected, rtol=1e-4, atol=1e-4)
