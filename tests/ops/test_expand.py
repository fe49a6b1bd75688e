"""Vectors spread over rows and columns, against loops."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.ops.harness import infer, partial, random_array, tensor, tile, value
from tilejit.dtypes import BF16, FP16, FP32, INT32, DType
from tilejit.errors import ShapeError
from tilejit.ops.spec import ExtentCheck
from tilejit.types.values import TileType

COMBINE: dict[str, Callable[[float, float], float]] = {
    "_add": lambda x, v: x + v,
    "_sub": lambda x, v: x - v,
    "_mul": lambda x, v: x * v,
    "_div": lambda x, v: x / v,
    "_max": max,
    "_min": min,
    "_expdif": lambda x, v: math.exp(x - v),
    "": lambda x, v: v,
}


@pytest.mark.parametrize("level", ["tensor", "tile"])
@pytest.mark.parametrize("dtype", [FP32, FP16, BF16], ids=str)
@pytest.mark.parametrize("name", COMBINE)
def test_each_element_meets_the_vectors_element_of_its_row_or_column(name: str, dtype: DType, level: str) -> None:
    x, row, column = random_array((4, 7), dtype), random_array((4, 1), dtype), random_array((1, 7), dtype)
    tolerance = {"FP32": 1e-6, "FP16": 1e-3, "BF16": 8e-3}[dtype.name]
    for direction, vector in (("row", row), ("col", column)):
        out = value(f"{direction}_expand{name}", level, lhs=x, rhs=vector)
        spread = np.broadcast_to(vector, x.shape)
        exact = [[COMBINE[name](float(a), float(b)) for a, b in zip(*pair, strict=True)] for pair in zip(x, spread, strict=True)]
        assert out.dtype == dtype.numpy
        np.testing.assert_allclose(out.astype(np.float64), exact, rtol=tolerance, atol=tolerance)


def test_deep_operands_and_integers() -> None:
    x, row = random_array((2, 3, 5), INT32), random_array((2, 3, 1), INT32)
    np.testing.assert_array_equal(value("row_expand_add", lhs=x, rhs=row), x + row)
    x, column = random_array((2, 3, 5), FP32), random_array((2, 1, 5), FP32)
    np.testing.assert_array_equal(value("col_expand_mul", "tensor", lhs=x, rhs=column), x * column)


def test_the_result_is_valid_where_the_big_operand_is() -> None:
    x, row = random_array((6, 8), FP32), random_array((6, 1), FP32)
    out = value("row_expand_sub", lhs=partial(x, 4, 5), rhs=partial(row, 5, 1))
    assert out.valid == (4, 5)
    np.testing.assert_array_equal(out.box, x[:4, :5] - row[:4])


def test_a_vector_that_of_tiles_that_turns_out_too_short_is_an_error_when_it_runs() -> None:
    from tilejit.ops import table
    from tilejit.ops.evaluate import evaluate

    x, row = random_array((6, 8), FP32), random_array((6, 1), FP32)
    type, _ = infer("row_expand_add", "tile", lhs=tile((6, 8)), rhs=tile((6, 1), valid=("?", 1)))
    with pytest.raises(ShapeError, match="valid for 3 of 6"):
        evaluate(table()["row_expand_add"], {"lhs": partial(x, 6, 8), "rhs": partial(row, 3, 1)}, (type,))


@pytest.mark.parametrize("known", [3, "?"])
def test_a_result_is_valid_where_the_vector_is_too(known: int | str) -> None:
    from tilejit.ops import table
    from tilejit.ops.evaluate import evaluate

    x, row = random_array((6, 8), FP32), random_array((6, 1), FP32)
    type, _ = infer("row_expand_sub", "tile", lhs=tile((6, 8)), rhs=tile((6, 1), valid=(known, 1)))
    assert isinstance(type, TileType) and type.valid == (known, 8)
    (out,) = evaluate(table()["row_expand_sub"], {"lhs": partial(x, 6, 8), "rhs": partial(row, 3, 1)}, (type,))
    np.testing.assert_array_equal(out.box, x[:3] - row[:3])


@pytest.mark.parametrize(("dtype", "block"), [(FP32, 8), (FP16, 16)])
def test_a_block_per_row_repeats_along_it(dtype: DType, block: int) -> None:
    x, blocks = random_array((3, 40), dtype), random_array((3, block), dtype)
    expected = (x.astype(np.float32) + np.tile(blocks, 5)[:, :40].astype(np.float32)).astype(dtype.numpy)
    np.testing.assert_array_equal(value("row_expand_add", lhs=x, rhs=blocks), expected)


def test_dynamic_extents_agree_or_are_checked() -> None:
    type, call = infer("row_expand_mul", "tensor", lhs=tensor(("M", 8)), rhs=tensor(("M", 1)))
    assert type.shape == ("M", 8) and call.checks == []
    _, call = infer("col_expand_mul", "tensor", lhs=tensor((4, "N")), rhs=tensor((1, 8)))
    assert call.checks == [ExtentCheck(("lhs", 1), ("rhs", 1))]


def test_fills_take_the_targets_dtype_shape_and_valid_region() -> None:
    target = random_array((3, 5), INT32)
    assert value("expands", target=target, scalar=2.9).tolist() == [[2] * 5] * 3
    out = value("expands", target=partial(random_array((3, 5), FP16), 2, 4), scalar=0.5)
    assert out.valid == (2, 4) and out.box.tolist() == [[0.5] * 4] * 2
    src = random_array((3, 1), FP32)
    np.testing.assert_array_equal(value("expand_clone", "tensor", src=src, target=random_array((2, 3, 5), FP16)), np.broadcast_to(src, (2, 3, 5)))
