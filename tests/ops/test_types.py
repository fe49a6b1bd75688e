"""Result dtypes, broadcasting and valid regions, as the type rules give them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.harness import infer, partial, random_array, run, tensor, tile, value
from tilejit.dtypes import BF16, BOOL, FP16, FP32, INDEX, INT8, INT16, INT32, UINT8, UINT32, DType
from tilejit.errors import DTypeError, ShapeError
from tilejit.ops.evaluate import ArrayValue
from tilejit.ops.spec import ExtentCheck, ScalarArg
from tilejit.types.values import ANY, Shape

LITERAL, FLOAT = ScalarArg(INDEX, 2), ScalarArg(FP32, 2.5)


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        (FP16, FP16, FP16), (FP16, FP32, FP32), (FP16, BF16, FP16), (BF16, FP16, BF16), (INT32, FP16, FP16),
        (INT8, INT32, INT32), (INT32, UINT32, INT32), (UINT8, INT8, INT8), (INT16, UINT8, INT16),
    ],
)  # fmt: skip
def test_two_shaped_operands_promote(first: DType, second: DType, result: DType) -> None:
    for level, make in (("tensor", tensor), ("tile", tile)):
        assert infer("add", level, lhs=make((4, 4), first), rhs=make((4, 4), second))[0].dtype is result


@pytest.mark.parametrize(
    ("dtype", "scalar", "of_tensor", "of_tile"),
    [
        (FP16, FLOAT, FP32, FP16),
        (FP16, LITERAL, FP16, FP16),
        (INT32, FLOAT, FP32, INT32),
        (INT8, LITERAL, INT8, INT8),
        (INT8, ScalarArg(INT32), INT32, INT8),
        (FP16, ScalarArg(FP16, 2.0), FP16, FP16),
        (BF16, ScalarArg(FP32), FP32, BF16),
    ],
)
def test_a_scalar_promotes_a_tensor_and_leaves_a_tile_alone(dtype: DType, scalar: ScalarArg, of_tensor: DType, of_tile: DType) -> None:
    assert infer("mul", "tensor", lhs=tensor((4, 4), dtype), rhs=scalar)[0].dtype is of_tensor
    assert infer("mul", "tensor", lhs=scalar, rhs=tensor((4, 4), dtype))[0].dtype is of_tensor
    assert infer("mul", "tile", lhs=tile((4, 4), dtype), rhs=scalar)[0].dtype is of_tile


def test_subtraction_bits_shifts_and_fills_keep_the_tensors_dtype() -> None:
    assert infer("sub", "tensor", lhs=tensor((4, 4), FP16), rhs=FLOAT)[0].dtype is FP16
    assert infer("sub", "tensor", lhs=FLOAT, rhs=tensor((4, 4), INT32))[0].dtype is INT32
    assert infer("and_", "tensor", lhs=tensor((4, 4), INT16), rhs=ScalarArg(INT32))[0].dtype is INT16
    assert infer("shl", "tensor", lhs=tensor((4, 4), INT8), rhs=LITERAL)[0].dtype is INT8
    assert infer("expands", "tensor", target=tensor((4, 4), FP16), scalar=FLOAT)[0].dtype is FP16


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "rsqrt", "recip", "sin", "cos", "tanh", "erf", "sigmoid"])
def test_functions_of_integers_give_fp32_for_tensors_and_are_refused_for_tiles(name: str) -> None:
    assert infer(name, "tensor", input=tensor((4, 4), INT32))[0].dtype is FP32
    with pytest.raises(DTypeError, match=rf"{name} of a tile takes .*FP32.*got INT32"):
        infer(name, "tile", input=tile((4, 4), INT32))


def test_an_integer_tile_times_a_fraction_truncates_the_scalar() -> None:
    x = random_array((3, 5), INT32, -9, 9)
    np.testing.assert_array_equal(value("mul", lhs=x, rhs=2.9), x * 2)
    np.testing.assert_allclose(value("mul", "tensor", lhs=x, rhs=2.5), x * np.float32(2.5))


def test_a_literal_may_be_given_by_its_bits_but_must_fit_the_width() -> None:
    x = random_array((9,), INT16)
    np.testing.assert_array_equal(value("and_", lhs=x, rhs=0xFFFF), x)
    with pytest.raises(DTypeError, match="70000 does not fit INT16"):
        value("and_", lhs=x, rhs=70000)


def test_a_run_time_index_next_to_data_must_be_cast() -> None:
    for level, make in (("tensor", tensor), ("tile", tile)):
        with pytest.raises(DTypeError) as caught:
            infer("add", level, lhs=make((4, 4), FP32), rhs=ScalarArg(INDEX))
        assert "INDEX scalar known only at run time" in caught.value.message
        assert caught.value.hint == "convert it first: pl.cast(rhs, pl.FP32)"


def test_a_flag_is_no_number() -> None:
    with pytest.raises(DTypeError, match="got a BOOL scalar"):
        infer("add", "tile", lhs=tile((4, 4)), rhs=ScalarArg(BOOL, True))
    with pytest.raises(DTypeError, match=r"add takes .* as `lhs`, got BOOL"):
        run("add", "scalar", lhs=np.bool_(True), rhs=np.int32(1))
    with pytest.raises(DTypeError, match="got INT32"):
        run("logical_and", "scalar", lhs=np.bool_(True), rhs=np.int32(1))


# shapes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ((4, 5), (4, 5), (4, 5)), ((4, 5), (5,), (4, 5)), ((4, 1), (1, 5), (4, 5)), ((1,), (4, 5), (4, 5)),
        (("M", 5), (1, 5), ("M", 5)), (("M", 5), ("M", 1), ("M", 5)), (("M", 1), (1, "N"), ("M", "N")), ((2, "M"), ("M",), (2, "M")),
    ],
)  # fmt: skip
def test_operands_broadcast_from_the_last_dim(a: Shape, b: Shape, result: Shape) -> None:
    type, call = infer("add", "tensor", lhs=tensor(a), rhs=tensor(b))
    assert type.shape == type.valid == result
    assert call.checks == []


@pytest.mark.parametrize(
    ("a", "b", "result"), [(("M", 5), ("N", 5), ("M", 5)), (("M", 5), (7, 5), (7, 5)), ((ANY, 5), ("M", 5), ("M", 5)), ((ANY, 5), (ANY, 5), (ANY, 5))]
)
def test_extents_that_only_the_run_knows_are_checked_then(a: Shape, b: Shape, result: Shape) -> None:
    type, call = infer("add", "tensor", lhs=tensor(a), rhs=tensor(b))
    assert type.shape == result
    assert call.checks == [ExtentCheck(("lhs", 0), ("rhs", 0))]


def test_extents_that_disagree_are_refused() -> None:
    with pytest.raises(ShapeError) as caught:
        infer("add", "tile", lhs=tile((4, 5)), rhs=tile((4, 6)))
    assert caught.value.message == "add cannot broadcast [4, 5] and [4, 6]: extents 5 and 6 meet in dim 1"
    assert "equal or 1" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["and_", "or_", "xor", "shl", "shr"])
def test_bit_operations_broadcast(name: str) -> None:
    for level, made in (("tensor", tensor), ("tile", tile)):
        assert infer(name, level, lhs=made((4, 5), INT32), rhs=made((1, 5), INT32))[0].shape == (4, 5)


def test_broadcast_values_are_numpys() -> None:
    a, b, c = random_array((4, 1, 6), FP32), random_array((3, 1), FP32), random_array((6,), FP32)
    np.testing.assert_array_equal(value("add", lhs=a, rhs=b), a + b)
    np.testing.assert_array_equal(value("mul", "tensor", lhs=a, rhs=c), a * c)


# valid regions --------------------------------------------------------------------------------------------------------


def test_unary_ops_keep_the_valid_region_and_poison_the_rest() -> None:
    x = random_array((6, 8), FP32)
    out = value("exp", input=partial(x, 4, 5))
    assert isinstance(out, ArrayValue) and out.valid == (4, 5)
    np.testing.assert_allclose(out.box, np.exp(x[:4, :5]), rtol=1e-6)
    assert np.isnan(out.data[4:]).all() and np.isnan(out.data[:, 5:]).all()


def test_binary_ops_are_valid_where_both_operands_are() -> None:
    a, b = random_array((6, 8), FP32), random_array((6, 8), FP32)
    out = value("add", lhs=partial(a, 4, 8), rhs=partial(b, 6, 3))
    assert out.valid == (4, 3)
    np.testing.assert_array_equal(out.box, a[:4, :3] + b[:4, :3])
    row = random_array((1, 8), FP32)
    out = value("add", lhs=partial(a, 4, 8), rhs=partial(row, 1, 3))
    assert out.valid == (4, 3)


def test_an_empty_broadcast_operand_empties_the_result() -> None:
    a, row = random_array((6, 8), FP32), random_array((1, 8), FP32)
    assert value("add", lhs=a, rhs=partial(row, 0, 8)).valid == (0, 8)


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ((4, 8), (6, 3), (4, 3)),
        ((6, 8), (6, 8), (6, 8)),
        ((ANY, 8), (6, 8), (ANY, 8)),
        ((ANY, 8), (ANY, 3), (ANY, 3)),
        ((4, ANY), (4, 8), (4, ANY)),
    ],
)
def test_types_intersect_valid_regions(left: Shape, right: Shape, result: Shape) -> None:
    assert infer("mul", "tile", lhs=tile((6, 8), valid=left), rhs=tile((6, 8), valid=right))[0].valid == result


def test_division_of_tiles_trusts_valid_regions_that_only_the_run_knows() -> None:
    assert infer("div", "tile", lhs=tile((6, 8), valid=(ANY, 8)), rhs=tile((6, 8)))[0].valid == (ANY, 8)


@pytest.mark.parametrize("name", ["part_add", "part_mul", "part_max", "part_min"])
def test_part_ops_copy_where_only_the_first_is_valid(name: str) -> None:
    a, b = random_array((6, 8), FP32), random_array((6, 8), FP32)
    combine = {"part_add": np.add, "part_mul": np.multiply, "part_max": np.maximum, "part_min": np.minimum}[name]
    out = value(name, lhs=partial(a, 5, 7), rhs=partial(b, 6, 3))
    expected = a[:5, :7].copy()
    expected[:, :3] = combine(a[:5, :3], b[:5, :3])
    assert out.valid == (5, 7)
    np.testing.assert_array_equal(out.box, expected)
