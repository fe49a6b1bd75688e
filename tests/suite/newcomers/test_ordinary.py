"""Small kernels as people from NumPy, torch and Triton write them first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests.suite.newcomers.platforms import PLATFORMS, on
from tilejit.errors import UnsupportedFeatureError

rng = np.random.default_rng(31)


def data(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape, np.float32)


@pl.jit
def group_norm(x: pl.Tensor, groups: int, out: pl.Out[pl.Tensor]):
    y = x.reshape(x.shape[0], groups, -1)
    y = (y - y.mean(-1, keepdims=True)) / (y.var(-1, keepdims=True) + 1e-5) ** 0.5
    out[:] = y.reshape(x.shape)


def grouped(x: np.ndarray, groups: int) -> np.ndarray:
    y = x.reshape(x.shape[0], groups, -1)
    return ((y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)).reshape(x.shape)


@pl.jit
def window_attention(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, window: int, out: pl.Out[pl.Tensor]):
    i, j = pl.arange(q.shape[0])[:, None], pl.arange(k.shape[0])[None, :]
    scores = q @ k.T * (1.0 / q.shape[1] ** 0.5)
    scores = pl.where((j <= i) & (i - j < window), scores, float("-inf"))
    out[:] = pl.softmax(scores, axis=-1) @ v


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, window: int) -> np.ndarray:
    i, j = np.arange(len(q))[:, None], np.arange(len(k))[None]
    scores = np.where((j <= i) & (i - j < window), q @ k.T / np.sqrt(q.shape[1]), -np.inf)
    e = np.exp(scores - scores.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True) @ v


@pl.jit
def murmur(x: pl.Tensor, seed: int, out: pl.Out[pl.Tensor]):
    h = x ^ seed
    h = (h ^ (h >> 16)) * 0x85EBCA6B
    h = (h ^ (h >> 13)) * 0xC2B2AE35
    out[:] = h ^ (h >> 16)


def hashed(x: np.ndarray, seed: int) -> np.ndarray:
    h = x ^ np.uint32(seed)
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))


@pl.jit
def leaky(x: pl.Tensor, a: float, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        h = pl.zeros([x.shape[1]], dtype=pl.FP32)
        for i in pl.range(x.shape[0]):
            h = a * h + x[i]
            out[i, :] = h


def leaked(x: np.ndarray, a: float) -> np.ndarray:
    out = x.copy()
    for i in range(1, len(x)):
        out[i] += np.float32(a) * out[i - 1]
    return out


@pl.jit
def segments(x: pl.Tensor, segment: pl.Tensor, out: pl.Out[pl.Tensor[[6, 4], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = 0.0
        for i in pl.range(x.shape[0]):
            out[segment[i], :] += x[i, :]


def summed(x: np.ndarray, segment: np.ndarray) -> np.ndarray:
    return np.stack([x[segment == i].sum(0) for i in range(6)])


@pl.jit
def embedding(table: pl.Tensor, i: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.gather(table, 0, pl.broadcast_to(i[:, None], [i.shape[0], table.shape[1]]))


@pl.jit
def bins(x: pl.Tensor, out: pl.Out[pl.Tensor[[8], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = 0
        for i in pl.range(x.shape[0]):
            place = pl.cast(pl.floor(x[i]), pl.INT32)
            if place < 8:
                out[place] = out[place] + 1


CASES: list[tuple[Any, Callable[[], tuple[Any, ...]], Callable[..., np.ndarray]]] = [
    (group_norm, lambda: (data(5, 21), 3), grouped),
    (window_attention, lambda: (data(11, 7), data(11, 7), data(11, 5), 4), attended),
    (murmur, lambda: (rng.integers(0, 2**32, (5, 9), dtype=np.uint32), 12345), hashed),
    (leaky, lambda: (data(13, 5), 0.7), leaked),
    (segments, lambda: (data(15, 4), rng.integers(0, 6, 15).astype(np.int32)), summed),
    (embedding, lambda: (data(11, 6), rng.integers(0, 11, 5).astype(np.int32)), lambda table, i: table[i]),
    (bins, lambda: (np.abs(data(101)) * 4,), lambda x: np.histogram(x, 8, (0, 8))[0]),
]


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(("kernel", "arguments", "expected"), CASES, ids=[kernel.definition.name for kernel, *_ in CASES])
def test_small_kernels_mean_what_numpy_means(kernel: Any, arguments: Callable[[], tuple[Any, ...]], expected: Callable[..., np.ndarray], platform: str) -> None:
    given = arguments()
    np.testing.assert_allclose(kernel(*given, config=on(platform)), expected(*given), rtol=1e-4, atol=1e-5)


@pl.jit
def batch_norm(x: pl.Tensor, scale: pl.Tensor, mean: pl.InOut[pl.Tensor], var: pl.InOut[pl.Tensor]):
    now, spread = x.mean(axis=0), x.var(axis=0)
    mean[:] = 0.9 * mean + 0.1 * now
    var[:] = 0.9 * var + 0.1 * spread
    return (x - now) / pl.sqrt(spread + 1e-5) * scale


@pytest.mark.parametrize("platform", PLATFORMS)
def test_running_statistics_are_updated_beside_the_result(platform: str) -> None:
    x, scale, mean, var = data(9, 5), data(5), data(5), np.abs(data(5))
    expected = 0.9 * mean + 0.1 * x.mean(0), 0.9 * var + 0.1 * x.var(0)
    found = batch_norm(x, scale, mean, var, config=on(platform))
    np.testing.assert_allclose(found, (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) * scale, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(var, expected[1], rtol=1e-5, atol=1e-6)


@pl.jit
def by_array(table: pl.Tensor, i: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = table[i]


def test_an_array_as_an_index_is_refused_with_what_to_write() -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        by_array(data(11, 6), np.zeros(5, np.int32))
    assert "pl.gather(x, 0, pl.broadcast_to(i[:, None], [i.shape[0], x.shape[1]]))" in str(caught.value)
