# pyright: reportMissingParameterType=false, reportMissingTypeArgument=false, reportArgumentType=false
"""Kernels that pick, put and sort by index, against plain NumPy, on every platform; every bad index is named."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import OutOfBoundsError, ShapeError

pytestmark = pytest.mark.usefixtures("platform")
rng = np.random.default_rng(23)
CORE = pl.Level.CORE_GROUP


def floats(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def integers(high: int, *shape: int, dtype: Any = np.int32) -> Any:
    return rng.integers(0, high, shape).astype(dtype)


# gathers --------------------------------------------------------------------------------------------------------------


@pl.jit
def gather_columns(x, index, out: pl.Out):
    with pl.at(level=CORE):
        out[:] = pl.gather(x, dim=1, index=index)


@pl.jit
def gather_planes(x, index, out: pl.Out):
    out[:] = pl.gather(x, dim=0, index=index)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_gather_along_an_axis(dtype: Any) -> None:
    x = rng.integers(-50, 50, (7, 13)).astype(dtype)
    index = integers(13, 7, 4)
    out = np.zeros((7, 4), dtype)
    gather_columns(x, index, out)
    np.testing.assert_array_equal(out, np.take_along_axis(x, index.astype(np.int64), 1))


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_gather_of_any_rank(rank: int) -> None:
    shape = (5, 3, 4, 2, 3)[:rank]
    x, index, out = floats(*shape), integers(5, 9, *shape[1:]), np.zeros((9, *shape[1:]), np.float32)
    gather_planes(x, index, out)
    np.testing.assert_array_equal(out, np.take_along_axis(x, index.astype(np.int64), 0))


def test_a_bad_index_is_named_with_its_extent() -> None:
    x, index = floats(4, 5), integers(5, 4, 3)
    index[2, 1] = -7
    with pytest.raises(OutOfBoundsError, match=r"gather: index -7 of an extent of 5") as caught:
        gather_columns(x, index, np.zeros((4, 3), np.float32))
    assert "pl.gather(x, dim=1, index=index)" in str(caught.value)


@pl.jit
def matches(x, limit: pl.Scalar[pl.FP32], positions: pl.Out, counts: pl.Out):
    with pl.at(level=CORE):
        tile = pl.load(x, [0, 0], [6, 40], valid_shape=[5, 33])
        tmp = pl.create_tile([6, 40], pl.FP32)
        found, number = pl.tile.gather_compare(tile, limit, tmp, cmp_mode="gt", out_cols=12, offset=1000)
        pl.store(found, [0, 0], positions)
        pl.store(number, [0, 0], counts)


def test_comparison_finds_the_first_matches_of_each_valid_row() -> None:
    x = floats(6, 40)
    positions, counts = np.full((6, 12), -1, np.int32), np.full((1, 6), -1, np.int32)
    matches(x, 0.4, positions, counts)
    for row in range(5):
        expected = [1000 + column for column in range(33) if x[row, column] > np.float32(0.4)][:12]
        assert counts[0, row] == len(expected)
        assert positions[row, : len(expected)].tolist() == expected
    assert counts[0, 5] == -1


@pl.jit
def every_second(x, out: pl.Out):
    with pl.at(level=CORE):
        tile = pl.load(x, [0, 0], [4, 16])
        out[:] = pl.tile.gather_mask(tile, pl.tile.MaskPattern.P1010, output_dtype=pl.INT32)


def test_a_pattern_reads_bits_as_another_dtype() -> None:
    x, out = floats(4, 16), np.zeros((4, 8), np.int32)
    every_second(x, out)
    np.testing.assert_array_equal(out, x[:, 1::2].copy().view(np.int32))


# pools ----------------------------------------------------------------------------------------------------------------


def rows_by(policy: str) -> Any:
    @pl.jit
    def rows_of(mem, idx, out: pl.Out):
        with pl.at(level=CORE):
            out[:] = pl.mgather(mem, pl.load(idx, [0, 0], [1, 6]), gather_oob=policy)

    return rows_of


@pytest.mark.parametrize("policy", ["clamp", "wrap", "zero"])
def test_rows_outside_follow_the_policy(policy: str) -> None:
    mem, idx = floats(9, 21), np.array([[3, -1, 9, 0, 2**31 - 1, 8]], np.int32)
    out = np.zeros((6, 21), np.float32)
    rows_by(policy)(mem, idx, out)
    for k, index in enumerate(idx[0]):
        unsigned = int(index) % 2**32
        row = {"clamp": min(unsigned, 8), "wrap": unsigned % 9, "zero": unsigned}[policy]
        np.testing.assert_array_equal(out[k], mem[row] if row < 9 else np.zeros(21))


def test_rows_outside_are_an_error_by_default() -> None:
    with pytest.raises(OutOfBoundsError, match="mgather: index 9 of an extent of 9"):
        rows_by("undefined")(floats(9, 21), np.array([[3, 1, 9, 0, 2, 8]], np.int32), np.zeros((6, 21), np.float32))


@pl.jit
def from_pages(pool, slots, table, out: pl.Out):
    with pl.at(level=CORE):
        keys = pl.paged_gather(pool, slots, table, 16, 24, 40)
        out[0:37, :] = keys[0:37, :]


def test_rows_come_from_their_pages() -> None:
    pool, table, slots = floats(16 * 9, 24), integers(9, 4), integers(64, 37)
    out = np.zeros((37, 24), np.float32)
    from_pages(pool, slots, table, out)
    np.testing.assert_array_equal(out, np.stack([pool[table[i // 16] * 16 + i % 16] for i in slots]))
    slots[30] = 64
    with pytest.raises(OutOfBoundsError, match="paged_gather: index 4 of an extent of 4"):
        from_pages(pool, slots, table, out)
    slots[30], table[2] = 40, 9
    with pytest.raises(OutOfBoundsError, match="of an extent of 144"):
        from_pages(pool, slots, table, out)


@pl.jit
def transposed_rows(x, order, out: pl.Out):
    with pl.at(level=CORE):
        acc = pl.create_tile([16, 8], pl.FP32)
        for k in pl.range(8):
            row = pl.read(order, [k])
            acc = pl.gather_row(acc, x, [0, k], [row, 0], [1, 16], transpose=True)
        out[:] = acc


def test_rows_are_gathered_one_by_one_as_columns() -> None:
    x, order, out = floats(20, 16), integers(20, 8, dtype=np.int64), np.zeros((16, 8), np.float32)
    transposed_rows(x, order, out)
    np.testing.assert_array_equal(out, x[order].T)


# scatters -------------------------------------------------------------------------------------------------------------


@pl.jit
def scatter_elements(src, idx, rows: pl.Scalar[pl.INDEX], out: pl.InOut):
    with pl.at(level=CORE):
        tile = pl.load(src, [0, 0], [6, 10], valid_shape=[rows, 10])
        pl.mscatter(tile, pl.load(idx, [0, 0], [6, 10]), out)


def test_elements_are_scattered_into_a_tensor_of_any_rank() -> None:
    src, idx, out = floats(6, 10), integers(120, 6, 10), floats(4, 5, 6)
    expected = out.copy().ravel()
    for place, cell in zip(idx[:4].ravel(), src[:4].ravel(), strict=True):
        expected[place] = cell
    scatter_elements(src, idx, 4, out)
    np.testing.assert_array_equal(out.ravel(), expected)
    idx[1, 1] = 120
    with pytest.raises(OutOfBoundsError, match="mscatter: index 120 of an extent of 120"):
        scatter_elements(src, idx, 4, out)


@pl.jit
def scatter_tensors(src, idx, out: pl.InOut):
    with pl.at(level=CORE):
        pl.mscatter(src + 1.0, idx[0:4], out)


def test_elements_of_tensors_are_scattered_too() -> None:
    src, idx, out = floats(4, 5), rng.permutation(30).astype(np.int32).reshape(6, 5), floats(5, 6)
    expected = out.copy().ravel()
    expected[idx[:4].ravel()] = src.ravel() + np.float32(1)
    scatter_tensors(src, idx, out)
    np.testing.assert_array_equal(out.ravel(), expected)


@pl.jit
def update_pages(cache: pl.InOut, slots, fresh):
    cache = pl.scatter_update(cache, -2, slots, fresh)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int8])
@pytest.mark.parametrize("shape", [(24, 16), (4, 6, 1, 16)])
def test_rows_of_a_cache_are_replaced(shape: tuple[int, ...], dtype: Any) -> None:
    cache, slots = rng.integers(-9, 9, shape).astype(dtype), integers(24, 2, 3)
    fresh = rng.integers(-9, 9, (6, 16) if len(shape) == 2 else (2, 3, 1, 16)).astype(dtype)
    expected = cache.copy().reshape(24, 16)
    for slot, row in zip(slots.ravel(), fresh.reshape(6, 16), strict=True):
        expected[slot] = row
    update_pages(cache, slots, fresh)
    np.testing.assert_array_equal(cache.reshape(24, 16), expected)
    slots[1, 2] = 24
    with pytest.raises(OutOfBoundsError, match="scatter_update: index 24 of an extent of 24"):
        update_pages(cache, slots, fresh)


@pl.jit
def update_value(x, slots, fresh, out: pl.Out):
    doubled = x + x
    out[:] = pl.scatter_update(doubled, slots, fresh) - x


def test_a_value_is_not_changed_in_place() -> None:
    x, slots, fresh, out = floats(8, 5), integers(8, 1, 3), floats(3, 5), np.zeros((8, 5), np.float32)
    expected = x + x
    for slot, row in zip(slots[0], fresh, strict=True):
        expected[slot] = row
    update_value(x, slots, fresh, out)
    np.testing.assert_array_equal(out, expected - x)


@pl.jit
def scatter_into_tile(base, src, idx, out: pl.Out):
    with pl.at(level=CORE):
        tile = pl.load(base, [0, 0], [4, 8])
        done = pl.tile.scatter(tile, pl.load(src, [0, 0], [2, 8]), pl.load(idx, [0, 0], [2, 8]))
        out[:] = done + tile


def test_the_old_tile_survives_a_scatter() -> None:
    base, src, idx, out = floats(4, 8), floats(2, 8), integers(32, 2, 8), np.zeros((4, 8), np.float32)
    expected = base.copy().ravel()
    for place, cell in zip(idx.ravel(), src.ravel(), strict=True):
        expected[place] = cell
    scatter_into_tile(base, src, idx, out)
    np.testing.assert_array_equal(out, expected.reshape(4, 8) + base)


# sorting --------------------------------------------------------------------------------------------------------------


@pl.jit
def top8(scores, values: pl.Out, indices: pl.Out):
    with pl.at(level=CORE):
        for row in pl.range(3):
            tile = pl.load(scores, [row, 0], [1, 256])
            places = pl.reinterpret_view(pl.tile.arange(0, [1, 256], dtype=pl.INT32), pl.UINT32)
            pairs = pl.mrgsort(pl.sort32(tile, places), block_len=64)
            pairs = pl.mrgsort(pairs, block_len=256)
            best = pairs[:, 0:16]
            pl.store(pl.tile.gather_mask(best, 1), [row, 0], values)
            pl.store(pl.tile.gather_mask(best, 2, output_dtype=pl.INT32), [row, 0], indices)


def test_the_best_of_many_are_found_by_sorting_and_merging() -> None:
    scores = floats(3, 256)
    scores[0, 7], scores[1, 9], scores[2, :40] = np.nan, np.inf, 5.0
    values, indices = np.zeros((3, 8), np.float32), np.zeros((3, 8), np.int32)
    top8(scores, values, indices)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :8]
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(scores, order, 1))


@pl.jit
def merge_by(pairs, block: pl.Scalar[pl.INDEX] = pl.RUNTIME, out: pl.Out = None):
    with pl.at(level=CORE):
        out[:] = pl.mrgsort(pl.load(pairs, [0, 0], [1, 512]), block_len=block)


def test_a_run_length_known_at_run_time_is_checked() -> None:
    runs = np.sort(floats(4, 64), axis=1)[:, ::-1]
    pairs = np.stack([runs.reshape(-1), np.arange(256, dtype=np.float32)], 1).reshape(1, 512)
    out = np.zeros((1, 512), np.float32)
    merge_by(pairs, 128, out)
    np.testing.assert_array_equal(out[0, ::2], np.sort(runs.ravel())[::-1])
    with pytest.raises(ShapeError, match="multiple of 64 and divides 512, got 192"):
        merge_by(pairs, 192, out)


# extents known only in the call ---------------------------------------------------------------------------------------

M, N, K = pl.dynamic("M"), pl.dynamic("N"), pl.dynamic("K")


@pl.jit
def dynamic_gather(x: pl.Tensor[[M, N], pl.FP32], index: pl.Tensor[[M, K], pl.INT32], out: pl.Out[pl.Tensor[[M, K], pl.FP32]]):
    out[:] = pl.gather(x, dim=1, index=index)


@pl.jit
def dynamic_pattern(x: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[M, K], pl.FP32]]):
    out[:] = pl.gather(x, mask_pattern=1)


@pl.jit
def dynamic_update(x: pl.InOut[pl.Tensor[[M, 8], pl.FP32]], slots: pl.Tensor[[1, K], pl.INT32], fresh: pl.Tensor[[K, 8], pl.FP32]):
    pl.scatter_update(x, -2, slots, fresh)


@pl.jit
def dynamic_pages(
    pool: pl.Tensor[[M, 8], pl.FP32], slots: pl.Tensor[[K], pl.INT32], table: pl.Tensor[[N], pl.INT32], out: pl.Out[pl.Tensor[[64, 8], pl.FP32]]
):
    out[:] = pl.fillpad(pl.paged_gather(pool, slots, table, 4, 8, 64))


@pytest.mark.parametrize(("m", "n", "k"), [(3, 10, 5), (7, 4, 2), (1, 2, 1), (31, 64, 33)])
def test_index_driven_ops_take_dynamic_extents(m: int, n: int, k: int) -> None:
    x, index, out = floats(m, n), integers(n, m, k), np.zeros((m, k), np.float32)
    dynamic_gather(x, index, out)
    np.testing.assert_array_equal(out, np.take_along_axis(x, index.astype(np.int64), 1))
    half = np.zeros((m, n // 2), np.float32)
    dynamic_pattern(x, half)
    np.testing.assert_array_equal(half, x[:, ::2])
    cache, slots, fresh = floats(m, 8), integers(m, 1, k), floats(k, 8)
    expected = cache.copy()
    for slot, row in zip(slots[0], fresh, strict=True):
        expected[slot] = row
    dynamic_update(cache, slots, fresh)
    np.testing.assert_array_equal(cache, expected)
    pool, table, wanted, rows = floats(40, 8), integers(10, n), integers(4 * n, k), np.zeros((64, 8), np.float32)
    dynamic_pages(pool, wanted, table, rows)
    np.testing.assert_array_equal(rows[:k], [pool[table[i // 4] * 4 + i % 4] for i in wanted])
    assert (rows[k:] == 0).all()


def test_extents_that_do_not_fit_are_found_when_they_are_known() -> None:
    with pytest.raises(ShapeError, match="gather needs columns divisible by 2, got 5"):
        dynamic_pattern(floats(2, 5), np.zeros((2, 2), np.float32))
    with pytest.raises(ShapeError, match="70 indices for max_indices=64"):
        dynamic_pages(floats(8, 8), integers(4, 70), integers(2, 2), np.zeros((64, 8), np.float32))


# block-scaled products ------------------------------------------------------------------------------------------------


@pl.jit
def scaled_product(a, sa, b, sb, bias, out: pl.Out):
    with pl.at(level=CORE):
        left, right = pl.load(a, [0, 0], [5, 64]), pl.load(b, [0, 0], [64, 9])
        ls, rs = pl.load(sa, [0, 0], [5, 2]), pl.load(sb, [0, 0], [2, 9])
        first = pl.matmul_mx_bias(left, ls, right, rs, pl.load(bias, [0, 0], [1, 9]))
        out[:] = pl.matmul_mx_acc(first, left, ls, right, rs)


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn])
def test_products_with_scales(dtype: Any) -> None:
    a, b = (rng.uniform(-3, 3, shape).astype(dtype) for shape in ((5, 64), (64, 9)))
    sa, sb = (np.exp2(rng.integers(-5, 6, shape)).astype(ml_dtypes.float8_e8m0fnu) for shape in ((5, 2), (2, 9)))
    bias, out = floats(1, 9), np.zeros((5, 9), np.float32)
    scaled_product(a, sa, b, sb, bias, out)
    wide = [x.astype(np.float64) for x in (a, sa, b, sb)]
    exact = np.einsum("ik,kj->ij", wide[0] * np.repeat(wide[1], 32, 1), wide[2] * np.repeat(wide[3], 32, 0))
    np.testing.assert_allclose(out, 2 * exact + bias, rtol=1e-5, atol=1e-3 * np.abs(exact).max())
