"""Gathers, scatters and sorts against plain loops and torch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops.harness import partial, random_array, run, tensor, tile, value
from tilejit.dtypes import FP8E8M0, FP16, FP32, INDEX, INT16, INT32, INT64, UINT32
from tilejit.errors import ArgumentError, DTypeError, OutOfBoundsError, ShapeError, TilejitError
from tilejit.ops import table
from tilejit.ops.spec import Call, ScalarArg
from tilejit.types.enums import MaskPattern, MemorySpace
from tilejit.types.values import TileType

rng = np.random.default_rng(11)
COLUMNS = {"P0101": (0, 2), "P1010": (1, 2), "P0001": (0, 4), "P0010": (1, 4), "P0100": (2, 4), "P1000": (3, 4), "P1111": (0, 1)}


@pytest.mark.torch
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gather_by_index_is_torchs(dim: int) -> None:
    import torch

    x = random_array((5, 7), FP32)
    index = rng.integers(0, x.shape[dim], (4, 6)).astype(np.int32)
    expected = torch.gather(torch.from_numpy(x), dim, torch.from_numpy(index).long()).numpy()
    np.testing.assert_array_equal(value("gather", "tensor", input=x, dim=dim, index=index), expected)
    with pytest.raises(OutOfBoundsError, match="index 99"):
        value("gather", "tensor", input=x, dim=dim, index=np.full_like(index, 99))


@pytest.mark.parametrize("name", COLUMNS)
def test_patterns_pick_and_put_back_columns(name: str) -> None:
    x, base = random_array((3, 8), FP32), random_array((3, 8), FP32)
    first, step = COLUMNS[name]
    pattern = MaskPattern[name]
    wanted = [column for column in range(8) if column % step == first]
    picked = value("gather_mask", src=x, mask_pattern=pattern)
    np.testing.assert_array_equal(picked, x[:, wanted])
    np.testing.assert_array_equal(value("gather", "tensor", input=x, mask_pattern=int(pattern)), picked)
    expected = base.copy()
    expected[:, wanted] = picked
    np.testing.assert_array_equal(value("scatter_mask", dst=base, src=picked, mask_pattern=pattern), expected)
    np.testing.assert_array_equal(value("scatter", "tensor", input=picked, mask_pattern=pattern, dst=base), expected)


def test_a_pattern_can_read_the_bits_as_another_dtype() -> None:
    x = random_array((2, 8), FP32)
    np.testing.assert_array_equal(value("gather_mask", src=x, mask_pattern=1, output_dtype=UINT32), x[:, ::2].copy().view(np.uint32))
    out = value("gather_mask", src=partial(x, 2, 5), mask_pattern=2)
    assert out.valid == (2, 2)


def test_comparison_finds_ascending_positions_and_counts() -> None:
    x = rng.integers(0, 3, (4, 9)).astype(np.int32)
    _, (positions, counts) = run("gather_compare", src=x, kvalue=1, cmp_mode="eq", out_cols=6, offset=100)
    for row in range(4):
        found = [100 + j for j in range(9) if x[row, j] == 1][:6]
        assert positions.data[row, : len(found)].tolist() == found
        assert counts.data[0, row] == len(found)
    _, (_, above) = run("gather", "tensor", input=x, kvalue=0, cmp_mode="gt", out_cols=9)
    assert above.data[0].tolist() == (x > 0).sum(1).tolist()


def test_flat_indices_address_tiles() -> None:
    src = random_array((4, 5), FP32)
    indices = rng.permutation(20).reshape(5, 4).astype(np.int32)
    picked = value("gather_flat", src=src, indices=indices)
    np.testing.assert_array_equal(picked, [[src.ravel()[i] for i in row] for row in indices])
    np.testing.assert_array_equal(value("scatter_flat", dst=random_array((4, 5), FP32), src=picked, indexes=indices), src)


def test_scatter_writes_along_rows_and_the_last_of_equals_wins() -> None:
    x, src = random_array((3, 6), FP16), random_array((3, 4), FP16)
    index = np.array([[5, 0, 5, 1], [0, 1, 2, 3], [4, 4, 4, 4]], np.int16)
    expected = x.copy()
    for row in range(3):
        for k in range(4):
            expected[row, index[row, k]] = src[row, k]
    np.testing.assert_array_equal(value("scatter", "tensor", input=x, dim=-1, index=index, src=src), expected)


def test_blocks_gather_by_byte_offset() -> None:
    src = random_array((4, 16), FP32)
    offsets = np.array([[0, 64], [4, 224]], np.uint32)
    out = value("gatherb", src=src, offset=offsets)
    flat = src.ravel()
    np.testing.assert_array_equal(out, [np.concatenate([flat[o // 4 : o // 4 + 8] for o in row]) for row in offsets])
    with pytest.raises(OutOfBoundsError, match="index 240"):
        value("gatherb", src=src, offset=np.array([[240]], np.uint32))


# sorting --------------------------------------------------------------------------------------------------------------


def pairs_of(interleaved: Any) -> list[tuple[float, int]]:
    """(value, index) pairs of an FP32 row."""
    return list(zip(interleaved[0::2].tolist(), interleaved[1::2].copy().view(np.uint32).tolist(), strict=True))


def test_sort32_sorts_blocks_descending_and_keeps_the_order_of_equals() -> None:
    src = rng.integers(0, 9, (2, 64)).astype(np.float32)
    idx = np.tile(np.arange(64, dtype=np.uint32), (2, 1))
    out = value("sort32", src=src, idx=idx)
    for row in range(2):
        for block in range(2):
            items = [(float(src[row, j]), j) for j in range(32 * block, 32 * block + 32)]
            assert pairs_of(out[row, 64 * block : 64 * block + 64]) == sorted(items, key=lambda item: -item[0])


def test_merging_runs_step_by_step_sorts_everything() -> None:
    src = random_array((1, 512), FP32)
    out = value("sort32", src=src, idx=np.arange(512, dtype=np.uint32)[None])
    out = value("mrgsort", src0=out, block_len=64)
    for start in range(0, 1024, 256):
        values = out[0, start : start + 256 : 2]
        assert (np.diff(values) <= 0).all()
    out = value("mrgsort", src0=out, block_len=np.int64(256))
    np.testing.assert_array_equal(out[0, 0::2], np.sort(src[0])[::-1])
    np.testing.assert_array_equal(src[0][out[0, 1::2].copy().view(np.uint32)], np.sort(src[0])[::-1])


def test_several_lists_merge_into_one() -> None:
    lists = [value("sort32", "tensor", src=random_array((1, 32), FP32), idx=np.arange(32, dtype=np.uint32)[None]) for _ in range(3)]
    out = value("mrgsort", "tensor", src0=lists[0], src1=lists[1], src2=lists[2])
    expected = sorted((pair for item in lists for pair in pairs_of(item[0])), key=lambda pair: -pair[0])
    assert [v for v, _ in pairs_of(out[0])] == [v for v, _ in expected]


# memory ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "rows"), [("clamp", [2, 5, 5]), ("wrap", [2, (2**32 - 1) % 6, 0]), ("zero", [2, None, None])])
def test_rows_outside_follow_the_policy(policy: str, rows: list[int | None]) -> None:
    mem, idx = random_array((6, 4), FP32), np.array([[2, -1, 6]], np.int32)
    out = value("mgather", mem=mem, idx=idx, gather_oob=policy)
    np.testing.assert_array_equal(out, [np.zeros(4) if row is None else mem[row] for row in rows])
    with pytest.raises(OutOfBoundsError, match="index -1"):
        value("mgather", mem=mem, idx=idx)


def test_elements_gather_by_flat_index_with_the_valid_region_of_the_index() -> None:
    mem, idx = random_array((6, 4), FP32), rng.integers(0, 24, (3, 5)).astype(np.int32)
    out = value("mgather", mem=mem, idx=partial(idx, 2, 5), coalesce="elem")
    assert out.valid == (2, 5)
    np.testing.assert_array_equal(out.box, mem.ravel()[idx[:2]])
    column = value("mgather", mem=mem, idx=idx[:, :1] % 6)
    np.testing.assert_array_equal(column, mem[idx[:, 0] % 6])


def test_pages_are_looked_up_in_the_block_table() -> None:
    pool, table_ = random_array((40, 6), FP32), np.array([7, 0, 3], np.int32)
    indices = np.array([0, 5, 11, 3, 8], np.int32)
    args = {"src": pool, "indices": indices, "block_table": table_, "block_size": 4, "size": 3, "max_indices": 8, "col_off": 2}
    out = value("paged_gather", "tensor", **args)
    assert out.data.shape == (8, 3) and out.valid == (5, 3)
    np.testing.assert_array_equal(out.box, [pool[table_[i // 4] * 4 + i % 4, 2:5] for i in indices])
    turned = value("paged_gather", "tensor", **args, is_trans=True)
    np.testing.assert_array_equal(turned.box, out.box.T)
    with pytest.raises(OutOfBoundsError):
        value("paged_gather", "tensor", **{**args, "indices": np.array([12], np.int32)})


def test_a_row_of_a_tensor_lands_in_the_accumulator() -> None:
    dst, src = random_array((4, 6), FP32), random_array((9, 6), FP32)
    out = value("gather_row", dst=dst, src=src, dst_offset=[2, 1], src_offset=[np.int64(7), 0], shapes=[1, 5])
    expected = dst.copy()
    expected[2, 1:6] = src[7, :5]
    np.testing.assert_array_equal(out, expected)
    turned = value("gather_row", dst=dst, src=src, dst_offset=[0, 3], src_offset=[1, 2], shapes=[1, 4], transpose=True)
    np.testing.assert_array_equal(turned[:, 3], src[1, 2:6])
    with pytest.raises(ShapeError, match="gather_row takes positive extents in `shapes`"):
        value("gather_row", dst=dst, src=src, dst_offset=[0, 3], src_offset=[1, 2], shapes=[-1, 4])


def test_block_scaled_products() -> None:
    a, b = (rng.uniform(-2, 2, shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((3, 64), (64, 5)))
    left, right = (np.exp2(rng.integers(-3, 4, shape)).astype(ml_dtypes.float8_e8m0fnu) for shape in ((3, 2), (2, 5)))
    exact = np.zeros((3, 5))
    for i in range(3):
        for j in range(5):
            exact[i, j] = sum(float(a[i, k]) * float(left[i, k // 32]) * float(b[k, j]) * float(right[k // 32, j]) for k in range(64))
    args: dict[str, Any] = {"lhs": a, "lhs_scale": left, "rhs": b, "rhs_scale": right}
    np.testing.assert_allclose(value("matmul_mx", **args), exact, rtol=1e-4, atol=1e-4)
    acc, bias = random_array((3, 5), FP32), random_array((1, 5), FP32)
    np.testing.assert_allclose(value("matmul_mx_acc", acc=acc, **args), exact + acc, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(value("matmul_mx_bias", bias=bias, **args), exact + bias, rtol=1e-4, atol=1e-4)


# rules ----------------------------------------------------------------------------------------------------------------

ONE = ScalarArg(INDEX, 1)
MAT = MemorySpace.Mat
ELEMENTS: dict[str, Any] = {"mem": tensor((4, 8)), "idx": tensor((2, 2), INT32), "coalesce": "elem"}
PAGED: dict[str, Any] = {
    "src": tensor((40, 8)), "indices": tensor((5,), INT32), "block_table": tensor((3,), INT32), "block_size": 4, "size": 8, "max_indices": 8,
}  # fmt: skip
MISTAKES: list[tuple[str, str, dict[str, Any], type[TilejitError], str]] = [
    ("gather", "tensor", {"input": tensor((4, 8))}, ArgumentError, "exactly one of `index`, `mask_pattern` and `kvalue`"),
    ("gather", "tensor", {"input": tensor((4, 8)), "index": tensor((4, 8), INT16), "dim": 1}, DTypeError, "takes INT32, INT64 as `index`, got INT16"),
    ("gather", "tensor", {"input": tensor((4, 8)), "index": tensor((5, 8), INT32), "dim": 1}, ShapeError, "larger than [4, 8] in dim 0"),
    ("gather", "tensor", {"input": tensor((4, 8)), "index": tensor((4, 8), INT32), "dim": 2}, ShapeError, "axis of 2 dims"),
    ("gather_mask", "tile", {"src": tile((4, 6)), "mask_pattern": 3}, ShapeError, "columns divisible by 4, got 6"),
    ("gather_mask", "tile", {"src": tile((4, 8)), "mask_pattern": 8}, ArgumentError, "no mask pattern 8"),
    ("gather_mask", "tile", {"src": tile((4, 8)), "mask_pattern": 1, "output_dtype": FP16}, DTypeError, "as wide as FP32"),
    ("gather_compare", "tile", {"src": tile((4, 8)), "kvalue": ONE, "cmp_mode": "like", "out_cols": 4}, ArgumentError, "no cmp_mode 'like'"),
    ("gather_compare", "tile", {"src": tile((4, 8)), "kvalue": ONE, "out_cols": 0}, ArgumentError, "positive constant as `out_cols`"),
    ("scatter", "tensor", {"input": tensor((4, 8)), "index": tensor((4, 2), INT32), "dim": 0, "src": tensor((4, 2))}, ShapeError, "dim=-1"),
    ("scatter", "tensor", {"input": tensor((4, 8)), "mask_pattern": 1}, ArgumentError, "needs `dst`"),
    ("scatter_mask", "tile", {"dst": tile((4, 8)), "src": tile((4, 8)), "mask_pattern": 1}, ShapeError, "takes [4, 4]"),
    ("scatter_flat", "tile", {"dst": tile((4, 8), FP16), "src": tile((4, 2), FP16), "indexes": tile((4, 2), INT32)}, DTypeError, "takes INT16"),
    ("sort32", "tile", {"src": tile((4, 33)), "idx": tile((4, 33), UINT32)}, ShapeError, "whole blocks of 32"),
    ("sort32", "tile", {"src": tile((4, 32)), "idx": tile((4, 32), INT32)}, DTypeError, "takes UINT32 as `idx`"),
    ("mrgsort", "tile", {"src0": tile((1, 128))}, ArgumentError, "one list and `block_len`"),
    ("mrgsort", "tile", {"src0": tile((1, 128)), "block_len": ScalarArg(INDEX, 96)}, ShapeError, "multiple of 64"),
    ("mrgsort", "tile", {"src0": tile((1, 64)), "src1": tile((1, 64)), "tmp": tile((1, 64))}, ShapeError, "`tmp` of the result's shape [1, 128]"),
    ("mgather", "tile", {"mem": tensor((4, 8)), "idx": tile((2, 2), INT32)}, ShapeError, "[1, R] or [R, 1]"),
    ("mgather", "tile", {"mem": tensor((4, 8)), "idx": tile((1, 2), INT32), "gather_oob": "skip"}, ArgumentError, "undefined, clamp, wrap, zero"),
    ("mgather", "tile", {"mem": tensor((4, 8)), "idx": tile((1, 2), INT32), "target_memory": MAT}, ArgumentError, "`idx` as a tensor in global memory"),
    ("mgather", "tile", ELEMENTS | {"target_memory": MAT}, ArgumentError, "elements into Mat needs `scratch`"),
    ("mgather", "tile", ELEMENTS | {"target_memory": MAT, "scratch": tensor((4, 8), FP16)}, DTypeError, "a `scratch` of FP32, got FP16"),
    ("paged_gather", "tensor", PAGED | {"size": 9}, OutOfBoundsError, "reads [0, 9) of dim 1"),
    ("paged_gather", "tensor", PAGED | {"max_indices": 4}, ShapeError, "5 indices for max_indices=4"),
    ("paged_gather", "tensor", PAGED | {"block_size": 0}, ArgumentError, "at least 1 as `block_size`, got 0"),
    ("paged_gather", "tensor", PAGED | {"block_table": tensor((3,), FP32)}, DTypeError, "as `block_table`, got FP32"),
    ("scatter_flat", "tile", {"dst": tile((4, 8), INT64), "src": tile((4, 2), INT64), "indexes": tile((4, 2), INT16)}, DTypeError, "takes INT32"),
    ("gatherb", "tile", {"src": tile((4, 8)), "offset": tile((4, 2), INT32)}, DTypeError, "takes UINT32 as `offset`"),
    ("gather_flat", "tile", {"src": tile((4, 8)), "indices": tile((4, 2), UINT32)}, DTypeError, "takes INT32 as `indices`"),
    ("mrgsort", "tile", {"src0": tile((1, 128), INT32), "block_len": ScalarArg(INDEX, 64)}, DTypeError, "takes FP16, FP32 as `src0`"),
    ("mrgsort", "tensor", {"src0": tensor((1, 64)), "src1": tensor((2, 64))}, DTypeError, "one dtype and row count"),
    ("matmul_mx", "tile", {n: tile((32, 32)) for n in ("lhs", "lhs_scale", "rhs", "rhs_scale")}, DTypeError, "takes FP4, FP8E4M3FN, FP8E5M2 as `lhs`"),
]


@pytest.mark.parametrize(("name", "level", "args", "kind", "text"), MISTAKES, ids=[f"{m[0]}-{i}" for i, m in enumerate(MISTAKES)])
def test_a_broken_rule_is_named(name: str, level: str, args: dict[str, Any], kind: type[TilejitError], text: str) -> None:
    row = table()[name]
    with pytest.raises(kind) as caught:
        row.infer(Call(row, level, args))
    assert text in str(caught.value)


def test_gathered_tiles_live_in_the_asked_space() -> None:
    row = table()["mgather"]
    (type,) = row.infer(Call(row, "tile", {"mem": tensor(("M", 8)), "idx": tensor((1, 4), INT32), "target_memory": MemorySpace.Mat}))
    assert isinstance(type, TileType) and type.space == "Mat" and type.shape == (4, 8)
    assert FP8E8M0 not in table()["matmul_mx"].dtypes
