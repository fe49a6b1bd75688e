"""Tiles that are valid in part, on their way into functions and out of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import ir
from tilejit.errors import ShapeError, UnsupportedFeatureError

ROWS = pl.dynamic("ROWS")
X = np.arange(64, dtype=np.float32).reshape(8, 8) + 1
SUMS = X[:6].sum(axis=0, keepdims=True)


@pl.jit.incore
def sums(t: Any):
    return pl.col_sum(t)


@pl.jit.incore
def annotated(t: pl.Tile[[8, 8], pl.FP32]):
    return pl.col_sum(t)


@pl.jit.incore
def viewed(t: pl.Tile[[8, 8], pl.FP32, pl.TileView(valid_shape=(6, 8))]):
    return pl.col_sum(t)


@pl.jit.incore
def viewed_at_run_time(t: pl.Tile[[8, 8], pl.FP32, pl.TileView(valid_shape=(ROWS, 8))]):
    return pl.col_sum(t)


@pl.jit.incore
def in_a_loop(t: Any):
    for _ in pl.range(2):
        t = t + t
    return pl.col_sum(t) * 0.25


@pl.jit.incore
def through_another(t: Any):
    return sums(t + t) * 0.5


@pl.jit.incore
def of_part(x: Any):
    return pl.load(x, [0, 0], [8, 8], valid_shape=[6, 8])


@pl.jit.incore
def of_what_there_is(x: Any):
    return pl.load(x, [0, 0], [8, 8], clamp=True)


FUNCTIONS = [sums, annotated, viewed, viewed_at_run_time, in_a_loop, through_another]


def callers(function: Any) -> tuple[Any, Any]:
    """Kernels that give a function a tile: valid in 6 rows, and in as many as there are."""

    @pl.jit
    def part(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(function(pl.load(x, [0, 0], [8, 8], valid_shape=[6, 8])), [0, 0], out)

    @pl.jit
    def ragged(x: pl.Tensor[[ROWS, 8], pl.FP32], out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(function(pl.load(x, [0, 0], [8, 8], clamp=True)), [0, 0], out)

    return part, ragged


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_function_knows_what_of_its_tile_is_valid(function: Callable[[Any], Any], platform: str) -> None:
    part, ragged = callers(function)
    for made, x in ((part, X), (ragged, X[:6].copy())):
        out = np.full((1, 8), -7, np.float32)
        made(x, out)
        np.testing.assert_array_equal(out, SUMS)
    if function is not viewed:
        ragged(X, out)
        np.testing.assert_array_equal(out, X.sum(axis=0, keepdims=True))


@pytest.mark.parametrize(("function", "x"), [(of_part, X), (of_what_there_is, X[:6].copy())], ids=["constant", "run time"])
def test_a_caller_knows_what_of_a_result_is_valid(function: Callable[[Any], Any], x: np.ndarray[Any, Any], platform: str) -> None:
    @pl.jit
    def kernel(x: pl.Tensor[[ROWS, 8], pl.FP32], out: pl.Out[pl.Tensor], copy: pl.InOut[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = function(x)
            pl.store(pl.col_sum(t), [0, 0], out)
            pl.store(t, [0, 0], copy)

    out, copy = np.zeros((1, 8), np.float32), np.full((8, 8), -7, np.float32)
    kernel(x, out, copy)
    np.testing.assert_array_equal(out, SUMS)
    np.testing.assert_array_equal(copy, np.concatenate([X[:6], np.full((2, 8), -7)]))


@pl.jit.incore
def doubled(t: Any):
    return t * 2.0


@pl.program
class Twice:
    """One function with tiles of two kinds."""

    @pl.function(type=pl.FunctionType.InCore)
    def doubled(self, t: pl.Tile[[8, 8], pl.FP32]) -> pl.Tile[[8, 8], pl.FP32]:
        return pl.mul(t, 2.0)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[8, 8], pl.FP32], out: pl.InOut[pl.Tensor[[8, 8], pl.FP32]], sums: pl.Out[pl.Tensor[[1, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            part = self.doubled(pl.load(x, [0, 0], [8, 8], valid_shape=[6, 8]))
            whole = self.doubled(pl.load(x, [0, 0], [8, 8]))
            pl.store(part, [0, 0], out)
            pl.store(pl.add(pl.col_sum(part), pl.col_sum(whole)), [0, 0], sums)


def test_one_function_takes_whole_tiles_and_parts(platform: str) -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.InOut[pl.Tensor], total: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            part = doubled(pl.load(x, [0, 0], [8, 8], valid_shape=[6, 8]))
            whole = doubled(pl.load(x, [0, 0], [8, 8]))
            pl.store(part, [0, 0], out)
            pl.store(pl.add(pl.col_sum(part), pl.col_sum(whole)), [0, 0], total)

    compiled: Any = ir.compile(Twice, platform=platform)
    again: Any = pl.parse(compiled.program.as_python())
    for made in (kernel, compiled, ir.compile(again, platform=platform)):
        out, total = np.full((8, 8), -7, np.float32), np.zeros((1, 8), np.float32)
        made(X, out, total)
        np.testing.assert_array_equal(out, np.concatenate([2 * X[:6], np.full((2, 8), -7)]))
        np.testing.assert_array_equal(total, 2 * SUMS + 2 * X.sum(axis=0, keepdims=True))


@pl.function(type=pl.FunctionType.InCore)
def elsewhere(t: pl.Tile[[8, 8], pl.FP32]) -> pl.Tile[[1, 8], pl.FP32]:
    return pl.col_sum(t)


def test_what_cannot_keep_its_valid_region_is_refused() -> None:
    @pl.jit
    def tensor(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = sums(pl.set_validshape(x, 8, 3))

    with pytest.raises(UnsupportedFeatureError, match="no valid region of its own"):
        tensor(X, np.zeros((1, 8), np.float32))

    @pl.program
    class Entry:
        @pl.function(type=pl.FunctionType.InCore)
        def main(self, t: pl.Tile[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
            pl.store(t, [0, 0], out)

    with pytest.raises(UnsupportedFeatureError, match="only tensors and scalars come from there"):
        ir.compile(Entry)


def test_functions_that_were_read_elsewhere_take_the_regions_of_their_annotations(platform: str) -> None:
    part, ragged = callers(elsewhere)
    out = np.zeros((1, 8), np.float32)
    with pytest.raises(ShapeError, match="valid up to 8 in dim 0, got 6"):
        part(X, out)
    ragged(X, out)
    np.testing.assert_array_equal(out, X.sum(axis=0, keepdims=True))
    with pytest.raises(ShapeError, match="the valid region of parameter `t` of `elsewhere`, dim 0: 8 and 6"):
        ragged(X[:6].copy(), out)
