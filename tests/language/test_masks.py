"""Comparisons as masks, at both levels: combined, chosen by, counted, written into BOOL arrays; and what they were before stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import RunConfig, ir

RNG = np.random.default_rng(3)
X, Y = (RNG.normal(size=(7, 45)) for _ in range(2))
DTYPES = [np.float32, np.float64, np.int32, np.float16, np.uint8]


@pytest.fixture(params=["reference", "cpu"])
def config(request: pytest.FixtureRequest) -> RunConfig:
    return RunConfig(platform=request.param)


def arrays(dtype: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    if np.dtype(dtype).kind in "iu":
        return RNG.integers(0, 9, (7, 45)).astype(dtype), RNG.integers(0, 9, (7, 45)).astype(dtype)
    return X.astype(dtype), Y.astype(dtype)


@pl.jit
def combined(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor[[7, 45], pl.BOOL]]):
    out[:] = ((x > y) & (y < 4)) | ~(x <= 1) ^ (x == y)


@pl.jit
def combined_tiles(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor[[7, 45], pl.BOOL]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a, b = pl.load(x, [0, 0], [7, 45]), pl.load(y, [0, 0], [7, 45])
        pl.store(((a > b) & (b < 4)) | ~(a <= 1) ^ (a == b), [0, 0], out)


def meant(x: Any, y: Any) -> Any:
    return ((x > y) & (y < 4)) | ~(x <= 1) ^ (x == y)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", [combined, combined_tiles], ids=["tensors", "tiles"])
def test_masks_combine_and_are_stored(kernel: Any, dtype: Any, config: RunConfig) -> None:
    x, y = arrays(dtype)
    np.testing.assert_array_equal(kernel(x, y, config=config), meant(x, y))


@pl.jit
def kept(x: pl.Tensor, y: pl.Tensor):
    inside = -1 < x < 1
    return pl.where(inside & (y > 0), x, y), inside, pl.row_sum(inside), pl.col_max(~inside), pl.row_min(inside | (y < 0))


@pl.jit
def kept_tiles(
    x: pl.Tensor, y: pl.Tensor, chosen: pl.Out[pl.Tensor], inside: pl.Out[pl.Tensor[[7, 45], pl.BOOL]], count: pl.Out[pl.Tensor[[7, 1], pl.INT32]],
    any_out: pl.Out[pl.Tensor[[1, 45], pl.BOOL]], all_in: pl.Out[pl.Tensor[[7, 1], pl.BOOL]],
):  # fmt: skip
    with pl.at(level=pl.Level.CORE_GROUP):
        a, b = pl.load(x, [0, 0], [7, 45]), pl.load(y, [0, 0], [7, 45])
        mask = -1 < a < 1
        pl.store(pl.where(mask & (b > 0), a, b), [0, 0], chosen)
        pl.store(mask, [0, 0], inside)
        tmp = pl.create_tile([7, 45], dtype=pl.INT32)
        pl.store(pl.row_sum(mask, tmp), [0, 0], count)
        pl.store(pl.col_max(~mask), [0, 0], any_out)
        pl.store(pl.row_min(mask | (b < 0), tmp), [0, 0], all_in)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", [kept, kept_tiles], ids=["tensors", "tiles"])
def test_masks_choose_and_are_counted(kernel: Any, dtype: Any, config: RunConfig) -> None:
    x, y = arrays(dtype)
    chosen, inside, count, any_out, all_in = kernel(x, y, config=config)
    mask = (x > -1) & (x < 1)
    np.testing.assert_array_equal(chosen, np.where(mask & (y > 0), x, y))
    np.testing.assert_array_equal(inside, mask)
    assert count.dtype == np.int32 and np.array_equal(count[:, 0], mask.sum(1))
    assert any_out.dtype == np.bool_ and np.array_equal(any_out[0], (~mask).any(0))
    assert np.array_equal(all_in[:, 0], (mask | (y < 0)).all(1))


@pl.jit
def as_before(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor], count: pl.Out[pl.Tensor]):
    hit = x > y
    out[:] = hit * x
    count[:] = pl.row_sum(hit)


@pl.jit
def packed_as_before(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor], bits: pl.Out[pl.Tensor[[7, 32], pl.UINT8]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a, b = pl.load(x, [0, 0], [7, 45]), pl.load(y, [0, 0], [7, 45])
        mask = a > b
        tmp = pl.create_tile([7, 45], dtype=pl.FP32)
        pl.store(pl.sel(mask, a, b, tmp), [0, 0], out)
        pl.store(mask, [0, 0], bits)


def test_comparisons_by_themselves_are_what_they_were(config: RunConfig) -> None:
    x, y = arrays(np.float32)
    out, count = np.empty_like(x), np.empty((7, 1), np.float32)
    as_before(x, y, out, count, config=config)
    np.testing.assert_array_equal(out, (x > y) * x)
    np.testing.assert_array_equal(count[:, 0], (x > y).sum(1))
    out, bits = np.empty_like(x), np.zeros((7, 32), np.uint8)
    packed_as_before(x, y, out, bits, config=config)
    np.testing.assert_array_equal(out, np.maximum(x, y))
    np.testing.assert_array_equal(bits[:, :6], np.packbits(x > y, axis=1, bitorder="little"))


@pl.jit
def chosen_by_sel(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a, b = pl.load(x, [0, 0], [7, 45]), pl.load(y, [0, 0], [7, 45])
        tmp = pl.create_tile([7, 45], dtype=pl.FP32)
        mask = (a > b) & (b > 0)
        pl.store(pl.sels(mask, pl.sel(mask, a, b, tmp), tmp, 3.0), [0, 0], out)


def test_sel_takes_masks_that_were_combined(config: RunConfig) -> None:
    x, y = arrays(np.float32)
    mask = (x > y) & (y > 0)
    np.testing.assert_array_equal(chosen_by_sel(x, y, config=config), np.where(mask, x, np.float32(3)))


def test_the_text_of_masks_parses_back() -> None:
    x, y = arrays(np.float32)
    for program in (combined.lower(x, y), combined_tiles.lower(x, y), kept.lower(x, y)):
        assert ir.structural_equal(program, pl.parse(program.as_python()))
