"""`fast_math=False`: sums in the order of the reference, bit by bit, whatever the shapes and the dtype."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tilejit.language as pl
from tilejit.runtime.config import RunConfig

M, N = pl.dynamic("M"), pl.dynamic("N")


@pl.jit
def sums(
    x: pl.Tensor[[M, N], pl.FP32],
    rows: pl.Out[pl.Tensor[[M, 1], pl.FP32]],
    columns: pl.Out[pl.Tensor[[1, N], pl.FP32]],
    products: pl.Out[pl.Tensor[[M, 1], pl.FP32]],
):
    rows[:] = pl.row_sum(pl.mul(x, 1.25))
    columns[:] = pl.col_sum(x)
    products[:] = pl.row_prod(pl.add(x, 1.0))


def outputs(m: int, n: int, dtype: Any = np.float32) -> list[npt.NDArray[Any]]:
    return [np.empty(shape, dtype) for shape in ((m, 1), (1, n), (m, 1))]


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (5, 8), (700, 1), (2, 127), (3, 129), (4, 1000), (33, 4097)])
def test_sums_have_the_bits_of_the_reference(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(shape[1]).normal(size=shape).astype(np.float32) * np.float32(0.1)
    found, wanted = outputs(*shape), outputs(*shape)
    sums(x, *found, config=RunConfig(platform="cpu", fast_math=False))
    sums(x, *wanted, config=RunConfig(platform="reference"))
    for got, want in zip(found, wanted, strict=True):
        assert got.tobytes() == want.tobytes()


@pl.jit
def tile_sums(x: pl.Tensor, out: pl.Out[pl.Tensor], n: int):
    with pl.at(level=pl.Level.CORE_GROUP):
        tile = pl.load(x, [0, 0], [16, 256], valid_shape=[13, n])
        tmp = pl.create_tile([16, 256], x.dtype)
        out = pl.store(pl.set_validshape(pl.row_sum(pl.mul(tile, tile), tmp), 13, 1), [0, 0], out)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize("n", [1, 7, 131, 256])
def test_valid_rows_of_every_float_type_are_added_in_order(dtype: Any, n: int) -> None:
    x = np.random.default_rng(n).normal(size=(16, 256)).astype(dtype)
    found, wanted = np.zeros((16, 1), dtype), np.zeros((16, 1), dtype)
    tile_sums(x, found, n, config=RunConfig(platform="cpu", fast_math=False))
    tile_sums(x, wanted, n, config=RunConfig(platform="reference"))
    assert found.tobytes() == wanted.tobytes()
    assert (found[:13] != 0).all()


def test_the_choice_is_part_of_what_is_compiled() -> None:
    x = np.random.default_rng(3).normal(size=(1, 4000)).astype(np.float32)
    fast, exact = outputs(1, 4000), outputs(1, 4000)
    sums(x, *fast, config=RunConfig(platform="cpu"))
    sums(x, *exact, config=RunConfig(platform="cpu", fast_math=False))
    assert fast[0] != exact[0]
    np.testing.assert_allclose(fast[0], exact[0], rtol=1e-4)
