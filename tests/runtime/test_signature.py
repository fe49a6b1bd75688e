"""Every call is checked before anything is written: counts, kinds, ranks, extents, dtypes, memory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tilejit.dtypes import BF16, BOOL, FP16, FP32, INDEX, INT8, INT32, UINT8
from tilejit.errors import AliasError, ArgumentError, DTypeError, ShapeError
from tilejit.runtime.arrays import ArrayView, DeviceTensor, scalar_of, view_of
from tilejit.runtime.call.signature import ParamInfo, Signature

rng = np.random.default_rng(7)
ADD = Signature("add", (ParamInfo("a", "In", FP32, (4, "M")), ParamInfo("b", "In", FP32, (4, "M")), ParamInfo("out", "Out", FP32, (4, "M"))))
SCALED = Signature("scaled", (ParamInfo("x", "In", FP32, (3,)), ParamInfo("out", "InOut", FP32, (3,)), ParamInfo("n", "In", INT8)), order=(0, 2, 1))


def data(*shape: int, dtype: object = np.float32) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)  # type: ignore[arg-type]


def test_all_parameters_work_in_place() -> None:
    out = data(4, 5)
    bound, new = ADD.bind((data(4, 5), data(4, 5), out))
    assert new == ()
    assert isinstance(bound[2], ArrayView)
    assert bound[2].address == out.ctypes.data


def test_leaving_out_the_outputs_allocates_them_with_the_extents_of_the_inputs() -> None:
    bound, new = ADD.bind((data(4, 9), data(4, 9)))
    (out,) = new
    assert isinstance(out, np.ndarray)
    assert out.shape == (4, 9)
    assert out.dtype == np.float32
    assert not out.any()
    assert isinstance(bound[2], ArrayView)
    assert bound[2].address == out.ctypes.data


def test_scalars_come_after_tensors_in_a_call_and_where_they_belong_in_the_code() -> None:
    bound, _ = SCALED.bind((data(3), data(3), 5))
    assert bound[1] == 5
    assert isinstance(bound[2], ArrayView)


@pytest.mark.torch
def test_outputs_are_allocated_in_the_framework_of_the_inputs() -> None:
    torch = pytest.importorskip("torch")
    _, new = ADD.bind((torch.randn(4, 3), torch.randn(4, 3)))
    out: Any = new[0]
    assert isinstance(out, torch.Tensor)
    assert (str(out.dtype), tuple(out.shape)) == ("torch.float32", (4, 3))


@pytest.mark.torch
def test_bfloat16_tensors_are_seen_as_their_own_memory() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.randn(3, 4).bfloat16()
    view = view_of(tensor)
    assert view is not None
    assert view.dtype is BF16
    array = view.numpy()
    array[1, 2] = 7
    assert tensor[1, 2].item() == 7


def test_strided_inputs_are_read_as_they_are() -> None:
    wide = data(5, 4)
    bound, _ = ADD.bind((wide.T, data(4, 5), np.empty((4, 5), np.float32)))
    assert isinstance(bound[0], ArrayView)
    assert bound[0].strides == (5, 1)
    np.testing.assert_array_equal(bound[0].numpy(), wide.T)


def test_objects_with_the_array_interface_or_dlpack_are_arrays() -> None:
    class Wrapped:
        def __init__(self, array: np.ndarray) -> None:
            self.__array_interface__ = array.__array_interface__

    class Exchanged:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **options: object) -> object:
            return self.array.__dlpack__(**options)  # type: ignore[arg-type]

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    array = data(4, 5)
    for wrapped in (Wrapped(array), Exchanged(array)):
        view = view_of(wrapped)
        assert view is not None
        assert (view.address, view.shape, view.dtype) == (array.ctypes.data, (4, 5), FP32)


def test_device_tensors_are_used_in_place() -> None:
    array = data(4, 5)
    view = view_of(DeviceTensor(array.ctypes.data, (4, 5), FP32))
    assert view is not None
    np.testing.assert_array_equal(view.numpy(), array)


def test_zero_extents_are_accepted() -> None:
    _, new = ADD.bind((data(4, 0), data(4, 0)))
    assert isinstance(new[0], np.ndarray)
    assert new[0].shape == (4, 0)


def readonly(*shape: int) -> np.ndarray:
    array = data(*shape)
    array.flags.writeable = False
    return array


shared = data(8, 5)
a45, b45, out45 = data(4, 5), data(4, 5), data(4, 5)
WRONG_CALLS = [
    ("one argument", (a45,), ArgumentError, r"add takes 3 \(in place\) or 2 \(the outputs are returned\) arguments, got 1.*a \(In\), b \(In\), out \(Out\)"),
    ("four arguments", (a45, b45, out45, out45), ArgumentError, r"got 4"),
    ("a list", (a45, b45.tolist(), out45), ArgumentError, r"`b` must be a tensor, got list"),
    ("a number", (a45, 1.0, out45), ArgumentError, r"`b` must be a tensor, got float"),
    ("another rank", (a45, b45[0], out45), ShapeError, r"`b` must have rank 2, got rank 1: expected \[4, M\], got \[5\]"),
    ("another constant extent", (data(3, 5), b45, out45), ShapeError, r"dim 0 of `a` must be 4, got 3"),
    ("extents that disagree", (a45, data(4, 6), out45), ShapeError, r"`M` is 5 in dim 1 of `a` but 6 in dim 1 of `b`"),
    ("an output of another extent", (a45, b45, data(4, 6)), ShapeError, r"`M` is 5 in dim 1 of `a` but 6 in dim 1 of `out`"),
    ("another dtype", (a45, b45.astype(np.float16), out45), DTypeError, r"`b` must hold FP32, got FP16"),
    ("a dtype the language lacks", (a45, b45.astype(np.complex128), out45), DTypeError, r"`b`: Unsupported NumPy dtype complex128.*supported: .*float32"),
    ("big-endian data", (a45, b45.astype(">f4"), out45), DTypeError, r"byte order of another machine \(>f4\)"),
    ("a read-only output", (a45, b45, readonly(4, 5)), ArgumentError, r"output `out` is read-only"),
    ("a strided output", (a45, b45, data(5, 4).T), ArgumentError, r"output `out` is not contiguous"),
    ("an output that is an input", (a45, b45, a45), AliasError, r"output `out` overlaps `a`"),
    ("an output that overlaps an input", (shared[2:6], b45, shared[4:8]), AliasError, r"output `out` overlaps `a`"),
]


@pytest.mark.parametrize(("what", "args", "kind", "message"), WRONG_CALLS, ids=[row[0] for row in WRONG_CALLS])
def test_wrong_calls_are_refused_and_outputs_untouched(what: str, args: tuple[object, ...], kind: type[Exception], message: str) -> None:
    before = [np.array(arg, copy=True) for arg in args if isinstance(arg, np.ndarray)]
    with pytest.raises(kind) as caught:
        ADD.bind(args)
    assert re.search(message, str(caught.value), re.DOTALL), str(caught.value)
    for kept, arg in zip(before, [arg for arg in args if isinstance(arg, np.ndarray)], strict=True):
        np.testing.assert_array_equal(kept, arg)


WRONG_SCALARS = [
    (128, OverflowError, r"`n` = 128 is outside the range of INT8: -128 to 127"),
    (-129, OverflowError, r"-129"),
    (2.5, ArgumentError, r"`n` must be an integer \(INT8\), got 2.5"),
    ("7", ArgumentError, r"`n` must be a number \(INT8\), got str"),
    (np.zeros(3, np.float32), ArgumentError, r"`n` must be a number \(INT8\), got a tensor"),
]


@pytest.mark.parametrize(("value", "kind", "message"), WRONG_SCALARS)
def test_scalars_that_do_not_fit_are_refused(value: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        SCALED.bind((data(3), data(3), value))


def test_an_output_whose_extent_no_input_has_cannot_be_allocated() -> None:
    signature = Signature("iota", (ParamInfo("x", "In", FP32, (3,)), ParamInfo("out", "Out", FP32, ("N", 2))))
    with pytest.raises(ShapeError, match=r"cannot allocate `out`: no argument has the extent `N` of its dim 0"):
        signature.bind((data(3),))


@pytest.mark.torch
def test_frameworks_may_be_mixed_only_when_nothing_is_allocated() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(ArgumentError, match=r"`a` is a numpy array, `b` a torch one"):
        ADD.bind((data(4, 5), torch.randn(4, 5)))
    ADD.bind((data(4, 5), torch.randn(4, 5), data(4, 5)))


@pytest.mark.torch
def test_outputs_that_require_grad_are_refused() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(ArgumentError, match=r"output `out` requires grad"):
        ADD.bind((torch.randn(4, 5), torch.randn(4, 5), torch.randn(4, 5, requires_grad=True)))


def test_int64_arrays_serve_as_index_tensors() -> None:
    offsets = np.array([3, 4])
    bound, new = Signature("f", (ParamInfo("offsets", "In", INDEX, (2,)),)).bind((offsets,))
    (view,) = bound
    assert isinstance(view, ArrayView) and view.address == offsets.ctypes.data and view.shape == (2,) and new == ()


@pytest.mark.parametrize("value", [True, np.bool_(True), 1, np.float16(2.5), np.array(3, np.int32)])
def test_scalars_of_numpy_are_numbers(value: object) -> None:
    assert scalar_of(value) == value
    assert type(scalar_of(value)) in (bool, int, float)


def test_numbers_are_converted_to_the_declared_dtype() -> None:
    signature = Signature("f", (ParamInfo("h", "In", FP16), ParamInfo("flag", "In", BOOL), ParamInfo("u", "In", UINT8), ParamInfo("i", "In", INT32)))
    bound, _ = signature.bind((3, 1, np.uint8(255), -4.0))
    assert bound == [3.0, True, 255, -4]
    assert [type(item) for item in bound] == [float, bool, int, int]


def test_a_masked_array_is_refused_as_an_input_an_output_and_a_number() -> None:
    plain, masked = np.ones((4, 5), np.float32), np.ma.masked_array(np.ones((4, 5), np.float32), mask=np.eye(4, 5, dtype=bool))
    for args in ((masked, plain, np.empty_like(plain)), (plain, plain.copy(), masked), (np.ma.masked_array(plain), plain.copy(), np.empty_like(plain))):
        with pytest.raises(ArgumentError, match="a masked array has cells without a value") as caught:
            ADD.bind(args)
        assert "pass x.filled(0.0), or x.data" in str(caught.value)
    scaled = Signature("scaled", (ParamInfo("x", "In", FP32, (3,)), ParamInfo("factor", "In", FP32)))
    with pytest.raises(ArgumentError, match="masked array"):
        scaled.bind((np.ones(3, np.float32), np.ma.masked))
