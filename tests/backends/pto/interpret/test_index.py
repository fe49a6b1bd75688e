"""Gather, scatter, sort and generators do what they say."""

from __future__ import annotations

import numpy as np
import pytest

from tests.pto.data import RNG, C, R, exact, f16, f32, floats, i32, integers, outputs
from tests.pto.harness import load, run
from tilejit.errors import OutOfBoundsError


def test_gather_by_index() -> None:
    a, index = floats(R, C), integers(R, 24, low=0, high=R * C)
    exact(outputs("gather_index", [a, index], [((R, 24), f32)])[0], a.reshape(-1)[index])


def test_an_index_outside_is_an_error_with_a_place() -> None:
    index = np.full((R, 24), R * C, i32)
    with pytest.raises(OutOfBoundsError, match=f"index {R * C} is outside") as caught:
        outputs("gather_index", [floats(R, C), index], [((R, 24), f32)])
    assert caught.value.span is not None and "pto.tgather" in caught.value.source_lines[0]


def test_gather_by_mask_pattern() -> None:
    a = floats(8, 64)
    got = outputs("gather_mask", [a], [((8, 32), f32)] * 2 + [((8, 16), f32)] * 3)
    for made, (start, step) in zip(got, ((0, 2), (1, 2), (0, 4), (2, 4), (3, 4)), strict=True):
        exact(made, a[:, start::step])


def test_gather_by_comparison() -> None:
    a = floats(8, 64)
    places, counts = outputs("gather_compare", [a], [((8, 64), i32), ((8, 1), i32)])
    for row in range(8):
        wanted = np.flatnonzero(a[row] > 0.5)
        assert counts[row, 0] == len(wanted)
        exact(places[row, : len(wanted)], wanted + 5)


def test_gather_of_blocks() -> None:
    a, blocks = floats(8, 64), RNG.integers(0, 8 * 64 // 8, (8, 8))
    (got,) = outputs("gather_blocks", [a, (blocks * 32).astype(np.uint32)], [((8, 64), f32)])
    exact(got, a.reshape(-1, 8)[blocks].reshape(8, 64))


def test_scatter() -> None:
    a, d = floats(8, 16), floats(8, 32)
    index = RNG.permutation(8 * 32)[: 8 * 16].reshape(8, 16).astype(i32)
    wanted = d.copy()
    wanted.reshape(-1)[index] = a
    exact(outputs("scatter", [a, index, d], [((8, 32), f32)])[0], wanted)


def records(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    out = np.zeros(values.size, np.dtype([("v", f32), ("i", np.uint32)]))
    out["v"], out["i"] = values, index
    return out.view(f32)


def test_blocks_of_32_are_sorted_with_their_indices() -> None:
    a = RNG.integers(0, 12, (4, 64)).astype(f32)
    index = RNG.permutation(1000)[:256].reshape(4, 64).astype(np.uint32)
    (got,) = outputs("sort_f32", [a, index], [((4, 128), f32)])
    for row in range(4):
        for start in (0, 32):
            order = np.array(sorted(range(start, start + 32), key=lambda column: (-a[row, column], column)))
            wanted = records(a[row, order], index[row, order])
            exact(got[row, 2 * start : 2 * start + 64].view(np.uint32), wanted.view(np.uint32))


def test_records_of_halves() -> None:
    a, index = floats(2, 32, dtype=f16), np.arange(64, dtype=np.uint32).reshape(2, 32)
    a[:, [3, 9, 30]] = a[:, :1]  # equals keep their order
    (got,) = outputs("sort_f16", [a, index], [((2, 128), f16)])
    order = np.argsort(-a, 1, kind="stable")
    exact(got.reshape(2, 32, 4)[:, :, 0], np.take_along_axis(a, order, 1))
    exact(np.ascontiguousarray(got.reshape(2, 32, 4)[:, :, 2:]).view(np.uint32)[:, :, 0], np.take_along_axis(index, order, 1))
    assert not got.reshape(2, 32, 4)[:, :, 1].any()


def sorted_records(count: int) -> np.ndarray:
    return records(-np.sort(-floats(count)), RNG.integers(0, 99, count))


def test_four_sorted_blocks_become_one() -> None:
    blocks = np.concatenate([sorted_records(32) for _ in range(4)])
    (got,) = outputs("merge_blocks", [blocks[None].copy()], [((1, 256), f32)])
    exact(got[0, ::2], -np.sort(-blocks[::2]))
    assert sorted(got[0].view(np.uint64)) == sorted(blocks.view(np.uint64))


def merged(lists: list[np.ndarray]) -> np.ndarray:
    """Records taken from the heads of lists, one after the other."""
    rest, out = [list(part.reshape(-1, 2)) for part in lists], list[np.ndarray]()
    while any(rest):
        best = max((part for part in rest if part), key=lambda part: part[0][0])
        out.append(best.pop(0))
    return np.concatenate(out)


def test_unsorted_lists_are_merged_by_their_heads() -> None:
    lists = [records(RNG.integers(0, 20, n).astype(f32), RNG.integers(0, 99, n))[None].copy() for n in (32, 32, 16)]
    (got,) = outputs("merge_lists", lists, [((1, 160), f32)])
    exact(got.view(np.uint32)[0], merged(lists).view(np.uint32))
    blocks = [records(RNG.integers(0, 20, 32).astype(f32), RNG.integers(0, 99, 32)) for _ in range(4)]
    (got,) = outputs("merge_blocks", [np.concatenate(blocks)[None].copy()], [((1, 256), f32)])
    exact(got.view(np.uint32)[0], merged(blocks).view(np.uint32))


def test_sorted_lists_are_merged() -> None:
    lists = [sorted_records(n)[None].copy() for n in (32, 32, 16)]
    (got,) = outputs("merge_lists", lists, [((1, 160), f32)])
    exact(got[0, ::2], -np.sort(-np.concatenate([part[0, ::2] for part in lists])))


def test_counting_and_triangles() -> None:
    up, down, lower, upper = outputs("generators", [], [((1, C), i32)] * 2 + [((R, C), f32)] * 2)
    exact(up[0], np.arange(C) + 3)
    exact(down[0], 3 - np.arange(C))
    exact(lower, np.tri(R, C, 3, dtype=f32))
    exact(upper, 1 - np.tri(R, C, 2, dtype=f32))


def test_the_generator_is_philox() -> None:
    """Known answers of Philox 4x32-10 for the digits of pi."""
    ten, seven = outputs("random_a5", [], [((4, 64), np.uint32)] * 2)
    exact(ten[0, :4], np.array([0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1], np.uint32))
    assert not (ten == seven).any()
    assert len(np.unique(ten)) == ten.size


def test_histograms_count_up() -> None:
    a, index = integers(4, 96, low=0, high=1024, dtype=np.uint16), integers(4, 32, low=0, high=4, dtype=np.uint8)
    high, low = outputs("histogram_a5", [a, index], [((4, 256), np.uint32)] * 2)
    for row in range(4):
        exact(high[row], np.cumsum(np.histogram(a[row] >> 8, 256, (0, 256))[0]))
        chosen = a[row][a[row] >> 8 == index[row, 0]]
        exact(low[row], np.cumsum(np.histogram(chosen & 255, 256, (0, 256))[0]))


def test_global_memory_by_index() -> None:
    a, index = floats(4, 32), integers(4, 32, low=-5, high=140)
    inside = (index >= 0) & (index < 128)
    exact(outputs("global_gather_a5", [index, a], [((4, 32), f32)])[0], np.where(inside, a.reshape(-1)[np.where(inside, index, 0)], 0))
    total, out = floats(4, 32), np.zeros((4, 32), f32)
    wanted = total.copy()
    np.add.at(wanted.reshape(-1), index[inside], a[inside])
    run("global_scatter_a5", index, a, out, total)
    np.testing.assert_allclose(total, wanted, rtol=1e-5, atol=1e-5)
    exact(out, total)


def test_a5_only_ops_are_marked_so_in_the_table() -> None:
    assert load("random_a5").arch == "a5" and load("pack_a5").arch == "a5"
