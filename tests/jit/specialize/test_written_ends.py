"""Outputs that a call leaves out: writes that are counted from the end of the output, cut there, or made in steps, and what else tells where they end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.specialize.test_output_shapes import assert_returns
from tilejit.errors import ShapeError
from tilejit.jit.function import JITFunction
from tilejit.runtime.config import RunConfig

PLATFORMS = ["cpu", "reference"]
M = pl.dynamic("M")
GRID = (2, 3)
ROWS, BOTH = slice(1, 3), (slice(0, 2), slice(1, 4))
X = np.random.default_rng(5).standard_normal((4, 6), np.float32)
RAGGED = np.random.default_rng(6).standard_normal((37, 3), np.float32)


@pl.jit
def all_of_it(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[...] = x * 2.0


@pl.jit
def columns_behind_dots(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[..., :2] = x[..., 4:]
    out[..., 2:] = x[..., :4]
    out[..., 1] = x[:, 0]


@pl.jit
def dots_behind_rows(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[...] = 0.0
    out[4, ...] = x[0]


@pl.jit
def rolled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[-1] = x[0]
    out[:-1] = x[1:]


@pl.jit
def rolled_by_two(x: pl.Tensor[[M, 6], pl.FP32], out: pl.Out[pl.Tensor]):
    out[-2:] = x[:2]
    out[:-2] = x[2:]


@pl.jit
def framed(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[0] = 1.0
    out[-1] = 2.0
    out[1:-1, 1:-1] = x
    out[:, -1] = 3.0


@pl.jit
def pairs_swapped(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[::2] = x[1::2]
    out[1::2] = x[::2]


@pl.jit
def spread(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[::2] = 0.0
    out[1::3, ::-2] = x


@pl.jit
def between_the_last(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[0:-1:2] = x
    out[-2::-2] = x


@pl.jit
def by_slices_of_python(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[ROWS, 0:4] = x[:2, :4]
    out[BOTH] = x[2:, 3:]


@pl.jit
def by_rank(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows = x[1:]
    out[:] = x.sum(axis=x.ndim - 1) * rows.rank


@pl.jit
def counted(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.histogram(x, pl.add(2, 2), 0, 2)


@pl.jit
def by_computed_numbers(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.unroll(2):
        out[:] = x / pl.sub(3, i) * pl.add(i, 1)


@pl.jit
def in_a_grid(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i, j in pl.spmd((2, 3)):
        pl.store(pl.load(x, [i * 2, j * 2], [2, 2]) * 2.0, [i * 2, j * 2], out)


@pl.jit
def in_a_named_grid(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i, j in pl.spmd(core_num=GRID):
        pl.store(pl.load(x, [i * 2, 0], [2, 6]), [i * 2, j * 6], out)


@pl.jit
def in_a_grid_of_the_call(x: pl.Tensor[[M, 6], pl.FP32], out: pl.Out[pl.Tensor]):
    for i, j in pl.spmd((pl.cdiv(x.shape[0], 3), 2)):
        pl.store(pl.load(x, [i * 3, j * 3], [3, 3], clamp=True), [i * 3, j * 3], out)


@pl.jit
def by_named_bounds(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, stop=4, step=2):
            pl.store(pl.load(x, [i, 0], [2, 6]), [i, 0], out)


def columns_wanted(x: np.ndarray) -> np.ndarray:
    want = np.roll(x, 2, axis=1)
    want[:, 1] = x[:, 0]
    return want


def framed_wanted(x: np.ndarray) -> np.ndarray:
    want = np.zeros((6, 8), np.float32)
    want[0], want[-1], want[1:-1, 1:-1] = 1, 2, x
    want[:, -1] = 3
    return want


def spread_wanted(x: np.ndarray) -> np.ndarray:
    want = np.zeros((11, 11), np.float32)
    want[1::3, ::-2] = x
    return want


def between_wanted(x: np.ndarray) -> np.ndarray:
    want = np.zeros((8, 6), np.float32)
    want[-2::-2] = x
    return want


def slices_wanted(x: np.ndarray) -> np.ndarray:
    want = np.zeros((3, 4), np.float32)
    want[1:3], want[0:2, 1:4] = x[:2, :4], x[2:, 3:]
    return want


WANTED = [
    (all_of_it, lambda x: x * 2),
    (columns_behind_dots, columns_wanted),
    (dots_behind_rows, lambda x: np.pad(x[:1], ((4, 0), (0, 0)))),
    (rolled, lambda x: np.roll(x, -1, axis=0)),
    (rolled_by_two, lambda x: np.roll(x, -2, axis=0)),
    (framed, framed_wanted),
    (pairs_swapped, lambda x: x[[1, 0, 3, 2]]),
    (spread, spread_wanted),
    (between_the_last, between_wanted),
    (by_slices_of_python, slices_wanted),
    (by_rank, lambda x: x.sum(axis=1) * np.float32(2)),
    (counted, lambda x: np.histogram(x, 4, (0, 2))[0].astype(np.int32)),
    (by_computed_numbers, lambda x: x / np.float32(2) * np.float32(2)),
    (in_a_grid, lambda x: x * 2),
    (in_a_named_grid, lambda x: np.tile(x, (1, 3))),
    (in_a_grid_of_the_call, lambda x: x),
    (by_named_bounds, lambda x: x),
]


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("case", WANTED, ids=[kernel.__name__ for kernel, _ in WANTED])
def test_the_shape_that_holds_all_writes_is_found(case: tuple[JITFunction, Callable[[np.ndarray], np.ndarray]], platform: str) -> None:
    kernel, wanted = case
    assert_returns(kernel(X, config=RunConfig(platform=platform)), wanted(X))


@pl.jit
def cut_where_it_was_read(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(pl.cdiv(x.shape[0], 16)):
        rows = pl.load(x, [i * 16, 0], [16, x.shape[1]], clamp=True)
        pl.store(rows * 2.0, [i * 16, 0], out, clamp=True)


@pl.jit
def last_rows_cut(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.load(x, [0, 0], [32, 3]) * 2.0, [0, 0], out)
        pl.store(pl.load(x, [32, 0], [16, 3], clamp=True) * 2.0, [32, 0], out, clamp=True)


@pl.jit
def whole_before(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x
    for i in pl.spmd(pl.cdiv(x.shape[0], 16)):
        pl.store(pl.load(x, [i * 16, 0], [16, x.shape[1]], pad=1.0) * 2.0, [i * 16, 0], out, clamp=True)


@pl.jit
def padded(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(pl.cdiv(x.shape[0], 16)):
        rows = pl.load(x, [i * 16, 0], [16, x.shape[1]], pad=1.0)
        pl.store(rows * 2.0, [i * 16, 0], out, clamp=True)


@pl.jit
def padded_behind_a_few(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[0:4] = x[0:4]
    for i in pl.spmd(pl.cdiv(x.shape[0], 16)):
        rows = pl.load(x, [i * 16, 0], [16, x.shape[1]], pad=1.0)
        pl.store(rows * 2.0, [i * 16, 0], out, clamp=True)


@pytest.mark.parametrize("kernel", [cut_where_it_was_read, last_rows_cut, whole_before], ids=lambda kernel: kernel.__name__)
def test_a_store_that_may_be_cut_ends_where_its_tile_was_cut_or_where_others_say(kernel: JITFunction) -> None:
    np.testing.assert_array_equal(kernel(RAGGED), RAGGED * 2)


@pytest.mark.parametrize("kernel", [padded, padded_behind_a_few], ids=lambda kernel: kernel.__name__)
def test_a_store_that_may_be_cut_says_nothing_of_the_shape_else(kernel: JITFunction) -> None:
    """The padding is no data: the shape was rounded up to whole tiles."""
    with pytest.raises(ShapeError, match=r"`out` .* cannot be told from this write: where it ends follows from the output's own shape") as caught:
        kernel(RAGGED)
    assert caught.value.source_lines == ("        pl.store(rows * 2.0, [i * 16, 0], out, clamp=True)\n",)
    assert 'out: pl.Out[pl.like("x")]' in (caught.value.hint or "")
    np.testing.assert_array_equal(padded_like(RAGGED), RAGGED * 2)


@pl.jit
def padded_like(x: pl.Tensor, out: pl.Out[pl.like("x")]):
    for i in pl.spmd(pl.cdiv(x.shape[0], 16)):
        pl.store(pl.load(x, [i * 16, 0], [16, x.shape[1]], pad=1.0) * 2.0, [i * 16, 0], out, clamp=True)


@pl.jit
def last_row_only(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[-1] = x[0]


def test_a_write_that_is_counted_from_the_end_says_nothing_alone() -> None:
    with pytest.raises(ShapeError, match="where it ends follows from the output's own shape"):
        last_row_only(X)


@pl.jit
def parts_of_cut_tiles(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.range(pl.cdiv(x.shape[0], 16)):
        with pl.at(level=pl.Level.CORE_GROUP):
            rows = pl.load(x, [i * 16, 0], [16, x.shape[1]], clamp=True)
            pl.store(rows[:, :2] * rows[:, 1:3], [i * 16, 0], out)


def test_parts_of_a_tile_that_was_cut_are_cut_too() -> None:
    np.testing.assert_array_equal(parts_of_cut_tiles(RAGGED), RAGGED[:, :2] * RAGGED[:, 1:3])
