"""Fourier transforms of rows of 256 complex numbers, in three ways."""

from __future__ import annotations

import numpy as np

import tilejit.language as pl

N = 256
ANGLES = [np.pi / (1 << stage) for stage in range(8)]


@pl.jit
def butterflies(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Radix 2: both halves of a row meet in log2(n) stages, each of which puts its results where the next one finds them in order (Stockham)."""
    half = N // 2
    turns = pl.exp(pl.complex(0.0, pl.arange(0.0, [1, half], pl.FP32, step=-2 * np.pi / N)))
    for row in pl.spmd(x.shape[0]):
        z = x[row : row + 1]
        for stage in pl.unroll(8):
            pairs, run = half >> stage, 1 << stage
            a, b = z[:, :half].reshape(pairs, run), z[:, half:].reshape(pairs, run)
            z = pl.concat(a + b, (a - b) * turns.reshape(pairs, run)[:, :1]).reshape(1, N)
        out[row : row + 1] = z


@pl.jit
def reversed_bits(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Radix 2 as in the textbook: a bit-reversed row, then stages of butterflies, each on all pairs of all rows at once."""
    rows = x.shape[0]
    # Reversing the bits of an index is a reversal of axes of extent 2.
    a = x.reshape([rows, 2, 2, 2, 2, 2, 2, 2, 2]).permute([0, 8, 7, 6, 5, 4, 3, 2, 1]).reshape(rows, N)
    for stage in pl.unroll(8):
        half = 1 << stage
        turns = pl.exp(pl.complex(0.0, pl.arange(0.0, [1, 1, half], pl.FP32, step=-ANGLES[stage])))
        z = a.reshape(rows, N // (2 * half), 2 * half)
        odd = z[:, :, half:] * turns
        y = pl.create_tensor([rows, N // (2 * half), 2 * half], pl.COMPLEX64)
        y[:, :, :half] = z[:, :, :half] + odd
        y[:, :, half:] = z[:, :, :half] - odd
        a = pl.reshape(y, [rows, N])
    out[:] = a


@pl.jit
def products(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """256 = 16 * 16: a transform of 16 numbers is a product with a matrix of 16 * 16, done along both axes with a turn of every number between."""
    rows = x.shape[0]
    k = pl.iota([16, 16], axis=0, dtype=pl.FP32) * pl.iota([16, 16], axis=1, dtype=pl.FP32)
    small = pl.exp(pl.complex(0.0, k * (-2 * np.pi / 16)))
    turns = pl.exp(pl.complex(0.0, k * (-2 * np.pi / N)))
    # Element [r, i, j] of a row is number 16 i + j; the sum over i comes first.
    a = x.reshape(rows, 16, 16).permute(0, 2, 1).reshape(rows * 16, 16) @ small
    b = (a.reshape(rows, 16, 16) * turns).permute(0, 2, 1).reshape(rows * 16, 16) @ small
    out[:] = b.reshape(rows, 16, 16).permute(0, 2, 1).reshape(rows, N)
