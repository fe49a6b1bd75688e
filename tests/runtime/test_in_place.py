"""An output that is the very buffer of an input: allowed where each cell is read only to be written, refused everywhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import AliasError

ROWS, COLUMNS = 5, 37


@pl.jit
def tensor_level(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.sub(pl.mul(x, 2.0), y)


@pl.jit
def tile_level(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a, b = pl.load(x, [0, 0], [ROWS, COLUMNS]), pl.load(y, [0, 0], [ROWS, COLUMNS])
        pl.store(pl.sub(pl.mul(a, 2.0), b), [0, 0], out)


@pl.jit
def row_mixing(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(pl.row_expand(y, pl.row_sum(x)), y)


@pl.jit
def shifted(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:4] = pl.add(x[1:5], y[0:4])
        out[4:5] = pl.add(x[0:1], y[4:5])


@pl.jit
def two_steps(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(y, 1.0)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, 1.0)


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    x, y = (rng.standard_normal((ROWS, COLUMNS)).astype(np.float32) for _ in range(2))
    return x, y


@pytest.mark.dispatch
@pytest.mark.parametrize("kernel", [tensor_level, tile_level])
@pytest.mark.parametrize("position", [0, 1])
def test_an_elementwise_kernel_works_in_the_buffer_of_its_input(platform: str, kernel: Callable[..., Any], position: int) -> None:
    for _ in range(3):
        x, y = data()
        expected = x * np.float32(2) - y
        target = (x, y)[position]
        kernel(x, y, target)
        np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("kernel", [row_mixing, shifted, two_steps])
def test_a_kernel_that_might_read_what_it_wrote_refuses(platform: str, kernel: Callable[..., Any]) -> None:
    x, y = data()
    before = x.copy()
    with pytest.raises(AliasError, match="`out` overlaps `x`"):
        kernel(x, y, x)
    np.testing.assert_array_equal(x, before)


def test_a_shifted_window_of_the_same_memory_refuses(platform: str) -> None:
    memory = np.arange((ROWS + 1) * COLUMNS, dtype=np.float32).reshape(ROWS + 1, COLUMNS)
    with pytest.raises(AliasError):
        tensor_level(memory[:ROWS], data()[1], memory[1:])
