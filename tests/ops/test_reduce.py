"""Reductions against loops in plain Python and exact sums."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops.harness import infer, partial, random_array, tensor, tile, value
from tilejit.dtypes import BF16, FP16, FP32, INT8, INT16, INT32, UINT8, DType
from tilejit.errors import ShapeError
from tilejit.ops import table
from tilejit.types.values import ANY

NAMES = ("sum", "max", "min", "prod", "argmax", "argmin")


def expected(combine: str, column: list[Any], dtype: DType) -> Any:
    if combine == "sum":
        return sum(int(v) for v in column) if dtype.is_integer else math.fsum(float(v) for v in column)
    if combine == "prod":
        return math.prod(int(v) for v in column) if dtype.is_integer else math.prod(float(v) for v in column)
    pick = max if "max" in combine else min
    best = pick(column)
    return list(column).index(best) if combine.startswith("arg") else best


@pytest.mark.parametrize("dtype", [FP32, FP16, INT32], ids=str)
@pytest.mark.parametrize("combine", NAMES)
@pytest.mark.parametrize("level", ["tensor", "tile"])
def test_rows_and_columns_reduce_as_loops_do(level: str, combine: str, dtype: DType) -> None:
    x = random_array((5, 9), dtype, -3, 3)
    tolerance = {"FP32": 1e-5, "FP16": 2e-3}.get(dtype.name, 0) if combine in ("sum", "prod") else 0
    rows = value(f"row_{combine}", level, input=x)
    columns = value(f"col_{combine}", level, input=x)
    assert rows.shape == (5, 1) and columns.shape == (1, 9)
    assert rows.dtype == (np.int32 if combine.startswith("arg") else dtype.numpy)
    np.testing.assert_allclose(rows[:, 0].astype(np.float64), [expected(combine, list(row), dtype) for row in x], rtol=tolerance, atol=tolerance * 4)
    np.testing.assert_allclose(columns[0].astype(np.float64), [expected(combine, list(x[:, j]), dtype) for j in range(9)], rtol=tolerance, atol=tolerance * 4)


def test_narrow_floats_accumulate_in_fp32_and_round_once() -> None:
    x = np.full((1, 3000), 0.1, ml_dtypes.bfloat16)
    exact = 3000 * float(x[0, 0])
    assert float(value("row_sum", input=x)[0, 0]) == float(np.float32(exact).astype(ml_dtypes.bfloat16))


def test_integer_sums_and_products_wrap() -> None:
    x = np.full((1, 5), 100, np.int8)
    assert value("row_sum", input=x)[0, 0] == np.int8(500 - 512)
    assert value("row_prod", input=np.full((1, 3), 100, np.uint8))[0, 0] == 1_000_000 % 256


def test_only_the_valid_region_counts() -> None:
    x = random_array((6, 10), FP32)
    rows = value("row_max", input=partial(x, 4, 7))
    assert rows.valid == (4, 1)
    np.testing.assert_array_equal(rows.box[:, 0], x[:4, :7].max(1))
    columns = value("col_argmin", input=partial(x, 4, 7))
    assert columns.valid == (1, 7)
    np.testing.assert_array_equal(columns.box[0], x[:4, :7].argmin(0))


def test_the_first_of_equal_elements_wins_and_nan_beats_all() -> None:
    x = np.array([[2, 7, 7, 1], [3, 1, 5, 1]], np.float32)
    assert value("row_argmax", input=x)[:, 0].tolist() == [1, 2]
    assert value("row_argmin", input=x)[:, 0].tolist() == [3, 1]
    x[0, 2] = np.nan
    assert np.isnan(value("row_max", input=x)[0, 0]) and np.isnan(value("row_min", input=x)[0, 0])


def test_columns_of_a_deep_tile_run_along_its_first_axis() -> None:
    x = random_array((3, 4, 5), FP32)
    np.testing.assert_allclose(value("col_sum", input=x), x.sum(0, keepdims=True), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(value("col_sum", "tensor", input=x), x.sum(1, keepdims=True), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(value("row_sum", input=x), x.sum(2, keepdims=True), rtol=1e-5, atol=1e-5)


def test_dynamic_extents_survive_and_empty_ones_behave() -> None:
    assert infer("row_sum", "tensor", input=tensor(("M", "N")))[0].shape == ("M", 1)
    assert infer("col_max", "tile", input=tile((8, 16), valid=(8, ANY)))[0].valid == (1, ANY)
    empty = np.empty((3, 0), np.float32)
    assert value("row_sum", "tensor", input=empty).tolist() == [[0], [0], [0]]
    assert value("row_prod", "tensor", input=empty).tolist() == [[1], [1], [1]]
    with pytest.raises(ShapeError, match="row_max of nothing"):
        value("row_max", "tensor", input=empty)
    assert value("row_max", "tensor", input=np.empty((0, 3), np.float32)).shape == (0, 1)


@pytest.mark.parametrize("dtype", [INT8, UINT8, INT16, BF16], ids=str)
def test_every_declared_dtype_reduces(dtype: DType) -> None:
    x = random_array((3, 6), dtype)
    for name in ("row_max", "col_max", "col_min"):
        assert dtype in table()[name].dtypes
        axis = 1 if name.startswith("row") else 0
        function = np.max if name.endswith("max") else np.min
        np.testing.assert_array_equal(value(name, input=x).astype(np.float64), function(x.astype(np.float64), axis=axis, keepdims=True))
    assert INT32 in table()["row_min"].dtypes and dtype is not FP32
