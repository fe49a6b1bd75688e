"""Ranks that signal each other and move data, as threads of this process."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks import signals
from tests.ranks.engines import PLATFORMS, on
from tilejit.dtypes import DTYPES
from tilejit.errors import DeadlockError

WORLDS = (1, 2, 3, 8)
RANDOM = np.random.default_rng(20)


def _floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_rank_runs_the_same_kernel_with_its_number(platform: str) -> None:
    for world in WORLDS:
        x = _floats(world, 8, 16)
        y = np.empty_like(x)
        signals.hello(x, y, config=on(world, platform))
        np.testing.assert_array_equal(y, x * (np.arange(world, dtype=np.float32) + 1)[:, None, None])


def test_another_world_compiles_nothing_new() -> None:
    signals.hello(_floats(2, 8, 16), np.empty((2, 8, 16), np.float32), config=on(2))
    before = signals.scale.cache_info().misses
    signals.hello(_floats(5, 8, 16), np.empty((5, 8, 16), np.float32), config=on(5))
    assert signals.scale.cache_info().misses == before


def test_outputs_that_are_left_out_are_returned() -> None:
    x = _floats(3, 8, 16)
    np.testing.assert_array_equal(signals.shift(x, config=on(3)), np.roll(x, 1, axis=0))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_ring_shift_by_put_and_by_get(platform: str) -> None:
    for world in WORLDS:
        x = _floats(world, 8, 16)
        y = np.empty_like(x)
        signals.shift(x, y, config=on(world, platform))
        np.testing.assert_array_equal(y, np.roll(x, 1, axis=0))
        signals.shift_back(x, y, config=on(world, platform))
        np.testing.assert_array_equal(y, np.roll(x, -1, axis=0))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_transfers_that_name_the_tiles_on_the_way(platform: str) -> None:
    """Puts everything into the next rank; gets a box of the next rank's copy, which has come from here."""
    for world in WORLDS:
        x = _floats(world, 8, 16)
        y, back = np.empty_like(x), np.zeros_like(x)
        signals.shift_staged(x, y, back, config=on(world, platform))
        np.testing.assert_array_equal(y, np.roll(x, 1, axis=0))
        expected = np.zeros_like(x)
        expected[:, 1:6, 2:8] = x[:, 3:8, 4:10]
        np.testing.assert_array_equal(back, expected)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_box_with_offsets_of_the_run_leaves_the_cells_around_it_alone(platform: str) -> None:
    for row, rows in ((0, 6), (2, 3), (5, 1), (3, 0)):
        x = RANDOM.integers(-99, 99, (3, 6, 10)).astype(np.int32)
        y = np.empty((3, 9, 14), np.int32)
        signals.put_boxes(x, y, row, rows, config=on(3, platform))
        expected = np.zeros_like(y)
        expected[:, row + 1 : row + 1 + rows, 3:10] = np.roll(x, 1, axis=0)[:, row : row + rows, 2:9]
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(("platform", "rounds"), [("reference", 20), ("cpu", 10_000)])
def test_what_was_written_before_a_notify_is_there_after_the_wait(platform: str, rounds: int) -> None:
    bad = np.full((2, 1, 1), -1, np.int32)
    signals.rallies(bad, rounds, config=on(2, platform))
    assert not bad.any()


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_notify_releases_what_went_to_a_third_rank(platform: str) -> None:
    x = _floats(3, 4, 8)
    y = np.empty_like(x)
    signals.through_a_third(x, y, config=on(3, platform))
    np.testing.assert_array_equal(y, x[[0, 0, 2]])


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name", ["FP32", "BF16", "FP16", "INT32", "INT16", "INT8"])
def test_adds_from_all_blocks_of_all_ranks_are_all_there(platform: str, name: str) -> None:
    dtype = DTYPES[name]

    @pl.jit.host
    def sums(one: pl.Tensor[[4, 40], dtype], y: pl.Out[pl.Tensor[[3, 4, 40], dtype]]):
        data = pld.alloc_window_buffer([4, 40], dtype=dtype)
        cells = pld.alloc_window_buffer([1, 1], dtype=pl.INT32)
        for r in pl.range(pld.world_size()):
            signals.adders(one, y[r], pld.window(data, [4, 40], dtype=dtype), pld.window(cells, [1, 1], dtype=pl.INT32), 8 * pld.world_size(), device=r)

    one = RANDOM.integers(1, 4, (4, 40)).astype(dtype.numpy)
    y = np.empty((3, 4, 40), dtype.numpy)
    sums(one, y, config=on(3, platform))
    np.testing.assert_array_equal(y[0].astype(np.float64), one.astype(np.float64) * 24)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_rank_lowers_its_own_counter(platform: str) -> None:
    for world in (1, 2, 3):
        y = np.full((world, 1, 2), -1, np.int32)
        signals.counters(y, config=on(world, platform))
        assert not y[:, 0, 1].any()


@pytest.mark.parametrize("platform", PLATFORMS)
def test_groups_that_overlap_share_nothing(platform: str) -> None:
    x = _floats(3, 64)
    ya, yb, me = np.full_like(x, 7), np.full_like(x, 7), np.full((2, 3, 1), -1, np.int32)
    signals.two_groups(x, ya, yb, me, config=on(3, platform))
    np.testing.assert_array_equal(ya, np.stack([x[1], x[0], np.full(64, 7, np.float32)]))
    np.testing.assert_array_equal(yb, np.stack([np.full(64, 7, np.float32), x[2], x[1]]))
    assert me.reshape(2, 3).tolist() == [[0, 1, -1], [-1, 0, 1]]


def test_a_function_that_takes_windows_runs_alone_on_arrays() -> None:
    x = _floats(8, 16)
    y, win, sig = np.empty_like(x), np.zeros((8, 16), np.float32), np.zeros((1, 1), np.int32)
    signals.ring_put(x, y, win, sig)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(win, x)
    assert sig[0, 0] == 1


@pytest.mark.parametrize("platform", PLATFORMS)
def test_blocks_that_wait_are_all_under_way(platform: str) -> None:
    """Each block waits for the one of the rank before that stands furthest from it in the text."""
    for world in (1, 2, 3):
        y = np.zeros((world, signals.BLOCKS, 1), np.int32)
        signals.all_crossed(y, 0, config=on(world, platform))
        assert y.reshape(world, -1).tolist() == [list(range(signals.BLOCKS, 0, -1))] * world


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_block_goes_on_while_those_before_it_wait(platform: str) -> None:
    for world in (1, 2):
        y = np.zeros((world, signals.BLOCKS, 4), np.int32)
        signals.all_chained(y, config=on(world, platform))
        wanted = np.cumsum(np.arange(signals.BLOCKS)[::-1])[::-1]
        assert np.array_equal(y, np.broadcast_to(wanted[:, None], y.shape))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_blocks_that_nobody_notifies_are_a_deadlock(platform: str) -> None:
    for world in (1, 2):
        with pytest.raises(DeadlockError) as caught:
            signals.all_crossed(np.zeros((world, signals.BLOCKS, 1), np.int32), 1, config=on(world, platform))
        assert len(caught.value.where) == world and "sig[5, 0] >= 1, it is 0" in caught.value.where[0]
