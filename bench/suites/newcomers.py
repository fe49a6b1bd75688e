"""Kernels that people who come from NumPy write, one thread, against numba, torch and NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import torch
from measure import Pair, Target

import tilejit.language as pl
from tests.suite.newcomers.fft import N, butterflies, products, reversed_bits
from tilejit.runtime import RunConfig

torch.set_num_threads(1)


@pl.jit
def stencil(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[1:-1, 1:-1] = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4.0 * x[1:-1, 1:-1]


@numba.njit
def numba_stencil(x: Any, out: Any) -> None:
    for i in range(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            out[i, j] = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1] - np.float32(4) * x[i, j]


@pl.jit
def convolution(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    (h, v), (r, s) = x.shape, w.shape
    with pl.at(level=pl.Level.CORE_GROUP):
        total = x[0 : h - r + 1, 0 : v - s + 1] * w[0, 0]
        for i, j in [(i, j) for i in range(r) for j in range(s)][1:]:
            total = total + x[i : h - r + 1 + i, j : v - s + 1 + j] * w[i, j]
        out[:] = total


@pl.jit
def running_sum(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x.cumsum()


@numba.njit
def numba_running_sum(x: Any, out: Any) -> None:
    total = np.float32(0)
    for i in range(x.size):
        total += x[i]
        out[i] = total


@pl.jit
def most_likely(x: pl.Tensor, values: pl.Out[pl.Tensor], indices: pl.Out[pl.Tensor]):
    v, i = pl.topk(x, 50)
    values[:] = v
    indices[:] = i


@pl.jit
def in_order(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.sort(x)


def pair(case: str, peer: str, kernel: Any, inputs: tuple[Any, ...], outputs: tuple[Any, ...], theirs: Any, expected: Any, least: float | None) -> Pair:
    """`least`: how many times as fast as the peer it should be, if somebody said so; the answer is checked."""
    compiled = kernel.compile(*inputs, *outputs, config=RunConfig(num_threads=1))

    def check() -> None:
        for out, want in zip(outputs, expected(), strict=True):
            np.testing.assert_allclose(out, want, rtol=1e-3, atol=1e-3)

    return Pair(case, peer, lambda: compiled(*inputs, *outputs), theirs, check=check, target=None if least is None else Target(round(1 / least, 2)))


def cases() -> Iterator[Pair]:
    rng = np.random.default_rng(0)
    x, out, kept = (rng.standard_normal((1024, 1024), np.float32) for _ in range(3))
    kept[:] = out
    yield pair("5-point stencil 1024x1024", "numba", stencil, (x,), (out,), lambda: numba_stencil(x, kept), lambda: (kept,), 1.2)
    taps, image = rng.standard_normal((3, 3), np.float32), torch.from_numpy(x)[None, None]
    weights = torch.from_numpy(taps)[None, None]

    def torch_convolution() -> Any:
        return torch.nn.functional.conv2d(image, weights)

    convolved = np.empty((1022, 1022), np.float32)
    answer = torch_convolution()[0, 0].numpy()
    yield pair("conv2d direct 1024x1024, 3x3", "torch conv2d", convolution, (x, taps), (convolved,), torch_convolution, lambda: (answer,), 1.0)
    row, summed, peer_row = (rng.standard_normal(100_000, np.float32) for _ in range(3))
    yield pair("cumsum of 100,000", "numba", running_sum, (row,), (summed,), lambda: numba_running_sum(row, peer_row), lambda: (peer_row,), 1.0)
    logits = rng.standard_normal(32_000, np.float32)
    tokens = torch.from_numpy(logits)
    first = np.empty(50, np.float32), np.empty(50, np.int32)
    best = [part.numpy() for part in torch.topk(tokens, 50)]
    yield pair("top 50 of 32,000", "torch.topk", most_likely, (logits,), first, lambda: torch.topk(tokens, 50), lambda: best, 1.0)
    yield pair("sort of 100,000", "np.sort", in_order, (row,), (summed,), lambda: np.sort(row), lambda: (np.sort(row),), 0.8)
    waves = (rng.standard_normal((64, N)) + 1j * rng.standard_normal((64, N))).astype(np.complex64)
    spectrum, signal = np.empty_like(waves), torch.from_numpy(waves)
    for name, kernel, least in (("radix 2", butterflies, 0.7), ("radix 2, bits reversed", reversed_bits, None), ("two products of 16", products, None)):
        yield pair(f"FFT 64x256, {name}", "torch.fft", kernel, (waves,), (spectrum,), lambda: torch.fft.fft(signal), lambda: (np.fft.fft(waves),), least)
