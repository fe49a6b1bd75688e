"""Matrix products against triple loops, torch and exact integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.harness import infer, partial, random_array, tensor, value
from tilejit.dtypes import BF16, FP8E4M3FN, FP8E5M2, FP16, FP32, INT8, INT32, DType
from tilejit.errors import DTypeError
from tilejit.ops.spec import ExtentCheck


def loops(a: Any, b: Any) -> Any:
    out = np.zeros((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = sum(float(a[i, k]) * float(b[k, j]) for k in range(a.shape[1]))
    return out


@pytest.mark.parametrize("dtype", [FP32, FP16, BF16, FP8E4M3FN, FP8E5M2], ids=str)
def test_float_tiles_multiply_into_fp32(dtype: DType) -> None:
    a, b = random_array((5, 13), dtype), random_array((13, 7), dtype)
    out = value("matmul", lhs=a, rhs=b)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, loops(a, b), rtol=1e-5, atol=1e-4)


def test_integer_tiles_multiply_exactly_into_int32() -> None:
    a, b = random_array((5, 300), INT8), random_array((300, 7), INT8)
    out = value("matmul", lhs=a, rhs=b)
    assert out.dtype == np.int32
    np.testing.assert_array_equal(out, loops(a, b).astype(np.int32))


def test_tensors_keep_the_promoted_dtype_unless_told_otherwise() -> None:
    a, b = random_array((5, 8), FP16), random_array((8, 7), FP16)
    assert value("matmul", "tensor", lhs=a, rhs=b).dtype == np.float16
    np.testing.assert_allclose(value("matmul", "tensor", lhs=a, rhs=b, out_dtype=FP32), loops(a, b), rtol=1e-5, atol=1e-4)
    small = random_array((4, 3), INT8)
    np.testing.assert_array_equal(value("matmul", "tensor", lhs=small, rhs=small.T.copy()), loops(small, small.T).astype(np.int64).astype(np.int8))


def test_factors_of_8_bits_give_what_is_asked_for_and_agree() -> None:
    a, b = random_array((5, 8), FP8E4M3FN), random_array((8, 7), FP8E4M3FN)
    np.testing.assert_allclose(value("matmul", "tensor", lhs=a, rhs=b, out_dtype=FP32), loops(a, b), rtol=1e-5, atol=1e-4)
    with pytest.raises(DTypeError, match="matmul of FP8E4M3FN tensors does not say what it gives"):
        value("matmul", "tensor", lhs=a, rhs=b)
    with pytest.raises(DTypeError, match="matmul of FP8E4M3FN and FP8E5M2 takes operands of one dtype"):
        value("matmul", "tensor", lhs=a, rhs=random_array((8, 7), FP8E5M2), out_dtype=FP32)


def test_integers_wrap_at_the_width_of_their_accumulator() -> None:
    a = np.full((1, 4), 60000, np.uint16)
    wrapped = (4 * 60000**2 + 2**31) % 2**32 - 2**31
    assert value("matmul", lhs=a, rhs=a.T.copy()).tolist() == [[wrapped]]
    assert value("matmul", "tensor", lhs=a, rhs=a.T.copy(), out_dtype=FP32).tolist() == [[np.float32(wrapped)]]
    b = np.full((1, 2), 2**33, np.int64)
    assert value("matmul", "tensor", lhs=b, rhs=np.ones((2, 1), np.int64)).tolist() == [[2**34]]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("left", "right"),
    [((4, 5), (5, 3)), ((2, 4, 5), (5, 3)), ((2, 4, 5), (2, 5, 3)), ((1, 4, 5), (6, 5, 3)), ((2, 1, 4, 5), (3, 5, 3)), ((5,), (5, 3)), ((4, 5), (5,))],
)
def test_tensor_shapes_follow_torch(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    import torch

    a, b = random_array(left, FP32), random_array(right, FP32)
    out = value("matmul", "tensor", lhs=a, rhs=b)
    np.testing.assert_allclose(out, torch.matmul(torch.from_numpy(a), torch.from_numpy(b)).numpy(), rtol=1e-5, atol=1e-5)


def test_operands_can_be_transposed() -> None:
    a, b = random_array((6, 4), FP32), random_array((3, 6), FP32)
    np.testing.assert_allclose(value("matmul", "tensor", lhs=a, rhs=b, a_trans=True, b_trans=True), loops(a.T, b.T), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(value("matmul", "tensor", lhs=a.T.copy(), rhs=b, b_trans=True), loops(a.T, b.T), rtol=1e-5, atol=1e-5)
    acc = random_array((4, 3), FP32)
    np.testing.assert_allclose(value("matmul_acc", "tensor", acc=acc, lhs=a, rhs=b, a_trans=True, b_trans=True), acc + loops(a.T, b.T), rtol=1e-5, atol=1e-5)


def test_two_vectors_give_one_element() -> None:
    a, b = random_array((5,), FP32), random_array((5,), FP32)
    np.testing.assert_allclose(value("matmul", "tensor", lhs=a, rhs=b), [float(a @ b)], rtol=1e-5)


def test_contraction_stops_at_the_valid_columns_of_the_left_operand() -> None:
    a, b = random_array((6, 8), FP32), random_array((8, 9), FP32)
    out = value("matmul", lhs=partial(a, 4, 5), rhs=partial(b, 7, 3))
    assert out.valid == (4, 3)
    np.testing.assert_allclose(out.box, loops(a[:4, :5], b[:5, :3]), rtol=1e-5, atol=1e-5)


def test_accumulation_adds_or_overwrites() -> None:
    acc, a, b = random_array((4, 3), FP32), random_array((4, 6), FP32), random_array((6, 3), FP32)
    np.testing.assert_allclose(value("matmul_acc", acc=acc, lhs=a, rhs=b), acc + loops(a, b), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(value("matmul_acc", acc=acc, lhs=a, rhs=b, init_cond=np.bool_(True)), loops(a, b), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(value("matmul_acc", acc=acc, lhs=a, rhs=b, init_cond=np.bool_(False)), acc + loops(a, b), rtol=1e-5, atol=1e-5)
    out = value("matmul_acc", acc=partial(acc, 2, 3), lhs=a, rhs=b)
    assert out.valid == (2, 3)
    integers = random_array((4, 6), INT8), random_array((6, 3), INT8)
    start = random_array((4, 3), INT32, -99, 99)
    np.testing.assert_array_equal(value("matmul_acc", acc=start, lhs=integers[0], rhs=integers[1]), start + loops(*integers).astype(np.int32))


def test_bias_and_vector_forms() -> None:
    a, b, bias = random_array((4, 6), FP16), random_array((6, 3), FP16), random_array((1, 3), FP32)
    np.testing.assert_allclose(value("matmul_bias", lhs=a, rhs=b, bias=bias), loops(a, b) + bias, rtol=1e-5, atol=1e-5)
    row, acc = a[:1].copy(), random_array((1, 3), FP32)
    np.testing.assert_allclose(value("gemv", lhs=row, rhs=b), loops(row, b), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(value("gemv_acc", acc=acc, lhs=row, rhs=b, acc_phase="final"), acc + loops(row, b), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(value("gemv_bias", lhs=row, rhs=b, bias=bias), loops(row, b) + bias, rtol=1e-5, atol=1e-5)


def test_batches_of_tiles_broadcast_but_not_their_accumulator() -> None:
    a, b = random_array((3, 4, 6), FP16), random_array((1, 6, 5), FP16)
    out = value("batch_matmul", lhs=a, rhs=b)
    assert out.shape == (3, 4, 5) and out.dtype == np.float32
    for i in range(3):
        np.testing.assert_allclose(out[i], loops(a[i], b[0]), rtol=1e-5, atol=1e-4)
    acc = random_array((3, 4, 5), FP32)
    np.testing.assert_allclose(value("batch_matmul_acc", acc=acc, lhs=a, rhs=b), acc + out, rtol=1e-5, atol=1e-4)


def test_dynamic_inner_extents_are_checked_when_they_run() -> None:
    type, call = infer("matmul", "tensor", lhs=tensor(("M", "K")), rhs=tensor(("K", "N")))
    assert type.shape == ("M", "N") and call.checks == []
    type, call = infer("matmul", "tensor", lhs=tensor(("M", "K")), rhs=tensor((64, 8)), b_trans=False)
    assert type.shape == ("M", 8) and call.checks == [ExtentCheck(("lhs", 1), ("rhs", 0))]
    type, call = infer("matmul", "tensor", lhs=tensor(("B", 4, 8)), rhs=tensor(("C", 8, 2)))
    assert call.checks == [ExtentCheck(("lhs", 0), ("rhs", 0))] and type.shape[1:] == (4, 2)
