"""Tensors that are made or chosen under branches and loops of a region, and used after it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import UnsupportedFeatureError

pytestmark = pytest.mark.dispatch
rng = np.random.default_rng(8)
N = pl.dynamic("N")


@pl.jit
def made_in_branches(x: pl.Tensor[[N, 5], pl.FP32], c: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        if c[0] > 2:
            y = pl.create_tensor([x.shape[0], 5], dtype=pl.FP32)
            y[:] = x + 1.0
        else:
            y = pl.create_tensor([x.shape[0], 5], dtype=pl.FP32)
            y[:] = x * 2.0
            y[0:1, :] = 7.0
    y += x  # nobody else has this tensor: it may be written afterwards
    out[:] = y


def in_branches(x: np.ndarray, c: int) -> np.ndarray:
    if c > 2:
        return x + 1 + x
    y = x * 2
    y[0] = 7
    return y + x


@pl.jit
def made_in_a_loop(x: pl.Tensor[[N, 5], pl.FP32], c: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = +x
        y[0:1, :] = 1.0
        for _ in pl.range(c[0]):
            z = y * 2.0
            z[1:2, :] = y[0:1, :]
            y = z
    out[:] = y


def in_a_loop(x: np.ndarray, c: int) -> np.ndarray:
    y = x.copy()
    y[0] = 1
    for _ in range(c):
        z = y * 2
        z[1] = y[0]
        y = z
    return y


@pl.jit
def one_of_the_callers(x: pl.Tensor[[N, 5], pl.FP32], c: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = x
        if c[0] > 2:
            y = pl.create_tensor([x.shape[0], 5], dtype=pl.FP32)
            y[:] = x + 1.0
        top = y[0:2, :]
    out[:] = y * 2.0
    out[0:2, :] = top


def of_the_callers(x: np.ndarray, c: int) -> np.ndarray:
    y = x + 1 if c > 2 else x
    out = y * 2
    out[:2] = y[:2]
    return out


@pl.jit
def computed_extents(x: pl.Tensor[[N, 5], pl.FP32], c: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        if c[0] > 2:
            y = pl.create_tensor([x.shape[0] // 2, 5], dtype=pl.FP32)
            y[:] = 1.0
        else:
            y = pl.create_tensor([x.shape[0] // 2, 5], dtype=pl.FP32)
            y[:] = 2.0
    out[:] = x
    out[0 : x.shape[0] // 2, :] = y


def extents(x: np.ndarray, c: int) -> np.ndarray:
    out = x.copy()
    out[: x.shape[0] // 2] = 1 if c > 2 else 2
    return out


@pl.jit
def extents_in_data(x: pl.Tensor[[N, 5], pl.FP32], c: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = pl.create_tensor([c[0] + 1, 5], dtype=pl.FP32)
        y[:] = 3.0
        y[0:1, :] = x[0:1, :]
    out[:] = x + pl.col_sum(y)


def in_data(x: np.ndarray, c: int) -> np.ndarray:
    return x + 3.0 * c + x[:1]


CASES = [
    (made_in_branches, in_branches),
    (made_in_a_loop, in_a_loop),
    (one_of_the_callers, of_the_callers),
    (computed_extents, extents),
    (extents_in_data, in_data),
]


@pytest.mark.parametrize(("kernel", "expected"), CASES, ids=[kernel.definition.name for kernel, _ in CASES])
def test_a_tensor_of_a_region_is_used_after_it(kernel: Any, expected: Any, platform: str) -> None:
    for rows, c in ((3, 1), (7, 5), (4, 3), (5, 0)):
        x = rng.standard_normal((rows, 5), np.float32)
        np.testing.assert_allclose(kernel(x.copy(), np.array([c], np.int32)), expected(x, c), rtol=1e-5, atol=1e-6)


@pl.jit
def chosen_and_written(x: pl.InOut[pl.Tensor], c: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = x
        if c[0] > 2:
            y = pl.create_tensor([4, 5], dtype=pl.FP32)
            y[:] = x + 1.0
    y[0:1, :] = 3.0
    out[:] = x


@pl.jit
def a_copy_written(x: pl.InOut[pl.Tensor], c: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = x
        if c[0] > 2:
            y = pl.create_tensor([4, 5], dtype=pl.FP32)
            y[:] = x + 1.0
        z = +y
    z[0:1, :] = 3.0
    out[:] = x + z


def test_a_write_that_would_tell_the_copy_from_the_tensor_is_refused_and_the_help_works() -> None:
    x, c, out = rng.standard_normal((4, 5), np.float32), np.array([1], np.int32), np.empty((4, 5), np.float32)
    with pytest.raises(UnsupportedFeatureError, match="a tensor that is chosen inside a region, and written after it, cannot leave it") as caught:
        chosen_and_written(x, c, out)
    assert "a copy `+t`" in str(caught.value)
    a_copy_written(x, c, out)
    expected = x.copy()
    expected[0] = 3
    np.testing.assert_allclose(out, x + expected, rtol=1e-6)


@pl.jit
def written_before_it_is_read(x: pl.Tensor, c: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor[[1, 5], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[0:1] = c[0:1] + 1
        y = pl.create_tensor([c[0], 5], dtype=pl.FP32)
        y[:] = 3.0
    out[:] = pl.col_sum(y)


def test_an_extent_is_not_read_before_the_region_writes_it() -> None:
    with pytest.raises(UnsupportedFeatureError):
        written_before_it_is_read(np.zeros((4, 5), np.float32), np.array([1], np.int32))
