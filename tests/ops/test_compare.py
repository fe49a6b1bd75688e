"""Comparisons, masks and selection, checked bit by bit in plain Python."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ops.harness import partial, random_array, run, value
from tilejit.dtypes import BF16, BOOL, FP16, FP32, INT16, INT32, UINT8, UINT16, UINT32, DType
from tilejit.ops.compare import mask_columns, pack, unpack
from tilejit.types.values import TileType

PYTHON: list[Callable[[Any, Any], bool]] = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


def few_values(shape: tuple[int, ...], dtype: DType) -> Any:
    """Data with many equal elements."""
    return np.random.default_rng(3).integers(0, 3, shape).astype(dtype.numpy)


def bits_of(mask: Any, row: int, columns: int) -> list[bool]:
    """Decision 15, literally: byte j bit b is column 8j + b."""
    return [bool(int(mask[row, j // 8]) >> (j % 8) & 1) for j in range(columns)]


@pytest.mark.parametrize("cmp_type", range(6))
@pytest.mark.parametrize("dtype", [FP32, BF16, INT16, UINT32], ids=str)
def test_tensors_compare_to_ones_and_zeros_of_their_dtype(cmp_type: int, dtype: DType) -> None:
    a, b = few_values((5, 11), dtype), few_values((1, 11), dtype)[:, ::-1].copy()
    out = value("cmp", "tensor", lhs=a, rhs=b, cmp_type=cmp_type)
    assert out.dtype == dtype.numpy
    expected = [[float(PYTHON[cmp_type](float(x), float(y))) for x, y in zip(row, b[0], strict=True)] for row in a]
    np.testing.assert_array_equal(out.astype(np.float32), expected)


@pytest.mark.parametrize("cmp_type", range(6))
@pytest.mark.parametrize("columns", [1, 8, 13, 256, 300])
def test_tiles_compare_to_packed_masks(cmp_type: int, columns: int) -> None:
    a, b = few_values((3, columns), FP32), few_values((3, columns), FP32)[::-1].copy()
    types, (mask,) = run("cmp_mask", lhs=a, rhs=b, cmp_type=cmp_type)
    assert types[0].dtype is UINT8
    used = math.ceil(columns / 8)
    assert mask.data.shape == (3, math.ceil(used / 32) * 32)
    assert mask.valid == (3, used)
    for row in range(3):
        assert bits_of(mask.data, row, columns) == [PYTHON[cmp_type](x, y) for x, y in zip(a[row], b[row], strict=True)]


def test_masks_follow_the_valid_region() -> None:
    a, b = few_values((4, 40), INT32), few_values((4, 40), INT32)
    types, (mask,) = run("cmp_mask", lhs=partial(a, 3, 40), rhs=partial(b, 4, 19), cmp_type=0)
    assert isinstance(types[0], TileType) and types[0].valid == mask.valid == (3, 3)
    assert bits_of(mask.data, 2, 19) == (a[2, :19] == b[2, :19]).tolist()


def test_a_tile_compares_with_a_scalar_in_its_own_dtype() -> None:
    a = few_values((2, 16), INT32)
    _, (mask,) = run("cmp_mask", lhs=a, rhs=1.9, cmp_type=0)
    assert bits_of(mask.data, 0, 16) == (a[0] == 1).tolist()


def test_nan_equals_nothing() -> None:
    a = np.array([[np.nan, 1.0]], np.float32)
    assert value("cmp", "tensor", lhs=a, rhs=a, cmp_type=0).tolist() == [[0, 1]]
    assert value("cmp", "tensor", lhs=a, rhs=a, cmp_type=1).tolist() == [[1, 0]]


@pytest.mark.parametrize(("cmp_type", "expected"), [(0, False), (1, True), (2, True), (3, True), (4, False), (5, False)])
def test_scalars_compare_to_flags(cmp_type: int, expected: bool) -> None:
    result = value("cmp", "scalar", lhs=np.int32(1), rhs=2, cmp_type=cmp_type)
    assert isinstance(result, np.bool_) and bool(result) is expected
    assert bool(value("cmp", "scalar", lhs=np.int64(1), rhs=1.5, cmp_type=cmp_type)) is expected
    assert bool(value("cmp", "scalar", lhs=np.uint32(5), rhs=-1, cmp_type=4)) is True


def test_packing_and_unpacking_are_inverse_for_all_carriers() -> None:
    bits = random_array((5, 64), BOOL)
    for carrier in (np.uint8, np.uint16, np.uint32, np.int32):
        np.testing.assert_array_equal(unpack(pack(bits).view(carrier), 64), bits)
    assert mask_columns(1) == mask_columns(256) == 32 and mask_columns(257) == 64


@pytest.mark.parametrize("dtype", [FP16, FP32, INT32, UINT16], ids=str)
def test_sel_takes_the_first_where_the_bit_is_set(dtype: DType) -> None:
    a, b = random_array((4, 21), dtype), random_array((4, 21), dtype)
    bits = random_array((4, 21), BOOL)
    mask = np.zeros((4, 32), np.uint8)
    mask[:, :3] = pack(bits)
    np.testing.assert_array_equal(value("sel", mask=mask, lhs=a, rhs=b), np.where(bits, a, b))
    wide = mask.view(np.uint32)
    np.testing.assert_array_equal(value("sel", mask=wide, lhs=a, rhs=b), np.where(bits, a, b))


def test_selection_of_a_comparison_is_the_maximum() -> None:
    a, b = random_array((6, 45), FP32), random_array((6, 45), FP32)
    _, (mask,) = run("cmp_mask", lhs=a, rhs=b, cmp_type=4)
    np.testing.assert_array_equal(value("sel", mask=mask, lhs=a, rhs=b), np.maximum(a, b))


def test_selection_is_valid_where_mask_and_data_are() -> None:
    a, b = random_array((6, 45), FP32), random_array((6, 45), FP32)
    _, (mask,) = run("cmp_mask", lhs=partial(a, 5, 16), rhs=b, cmp_type=4)
    out = value("sel", mask=mask, lhs=a, rhs=b)
    assert out.valid == (5, 16)
    np.testing.assert_array_equal(out.box, np.maximum(a, b)[:5, :16])


def test_sels_converts_its_scalar_modulo_the_width() -> None:
    src, bits = random_array((2, 8), UINT8), np.zeros((2, 8), bool)
    mask = np.zeros((2, 32), np.uint8)
    mask[:, :1] = pack(bits)
    assert value("sels", mask=mask, src=src, scalar=-1).tolist() == [[255] * 8] * 2
    assert value("sels", mask=mask, src=src, scalar=258).tolist() == [[2] * 8] * 2
    assert value("sels", mask=mask, src=src.astype(np.float32), scalar=0.5).tolist() == [[0.5] * 8] * 2


def test_where_chooses_by_any_number_of_a_tensor_and_by_flags_of_a_tile() -> None:
    a, b, c = random_array((3, 7), FP32), random_array((1, 7), FP32), few_values((3, 1), INT32)
    np.testing.assert_array_equal(value("where", "tensor", condition=c, lhs=a, rhs=b), np.where(c != 0, a, b))
    floats = few_values((3, 7), FP32)
    np.testing.assert_array_equal(value("where", "tensor", condition=floats, lhs=a, rhs=0.5), np.where(floats != 0, a, np.float32(0.5)))
    np.testing.assert_array_equal(value("where", condition=c != 0, lhs=a, rhs=2), np.where(c != 0, a, 2).astype(np.float32))
    assert value("where", "tensor", condition=c, lhs=1.0, rhs=2.0).dtype == np.float32
    assert value("where", "scalar", condition=np.bool_(True), lhs=np.int32(3), rhs=4) == 3


@pytest.mark.parametrize("dtype", [FP16, BF16, FP32], ids=str)
def test_isnan_gives_flags(dtype: DType) -> None:
    x = np.array([[np.nan, np.inf, -0.0, 3.5]], np.float32).astype(dtype.numpy)
    for level in ("tensor", "tile"):
        assert value("isnan", level, input=x).tolist() == [[True, False, False, False]]
