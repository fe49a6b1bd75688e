"""Arrays in GPU memory of any framework, graphs and streams, on a driver whose memory is ours."""

from __future__ import annotations

import ctypes
import gc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.runtime.cuda.fake import FakeLibrary
from tests.runtime.cuda.test_launch import arguments, program, scale
from tilejit.dtypes import BF16, FP32
from tilejit.errors import ArgumentError, DTypeError
from tilejit.runtime import arrays
from tilejit.runtime.arrays import ArrayView, view_of
from tilejit.runtime.cuda.arrays import DeviceArray, contiguous
from tilejit.runtime.cuda.streams import on_stream, stream_handle, stream_of


class Interface:
    """An array of a framework with the CUDA array interface."""

    def __init__(self, array: np.ndarray, **more: object) -> None:
        self.array = array
        strides = None if array.flags.c_contiguous else array.strides
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str, "data": (array.ctypes.data, False), "strides": strides, "version": 3, **more,
        }  # fmt: skip

    def copy(self) -> Interface:
        return Interface(np.ascontiguousarray(self.array))


class OverDlpack:
    """An array of a framework with DLPack only; the capsule is NumPy's own, on a GPU by its own account."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.asked: list[object] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 1

    def __dlpack__(self, stream: object = None) -> object:
        self.asked.append(stream)
        return self.array.__dlpack__()


def seen(value: object) -> ArrayView:
    found = view_of(value)
    assert found is not None
    return found


def test_the_array_interface_is_read_without_a_copy(gpu: FakeLibrary) -> None:
    array = np.arange(12, dtype=np.int16).reshape(3, 4)
    view = seen(Interface(array.T, stream=77))
    assert (view.shape, view.strides, view.dtype.name, view.address) == ((4, 3), (1, 4), "INT16", array.ctypes.data)
    assert (view.device, view.stream, view.writable, view.framework) == ("cuda:0", 77, True, "other")
    assert not seen(Interface(array, data=(array.ctypes.data, True))).writable


def test_what_the_interface_cannot_mean_here_is_refused(gpu: FakeLibrary) -> None:
    array = np.zeros(4, np.complex128)
    with pytest.raises(DTypeError, match="complex128"):
        view_of(Interface(array))
    with pytest.raises(ArgumentError, match="mask"):
        view_of(Interface(np.zeros(4, np.float32), mask=np.ones(4, bool)))
    with pytest.raises(ArgumentError, match="no multiple of the element size 4"):
        view_of(Interface(np.zeros(4, np.float32), strides=(6,)))


def test_strides_that_no_step_takes_may_be_anything(gpu: FakeLibrary) -> None:
    for shape, strides in (((1, 1), (6, 6)), ((1, 4), (6, 4)), ((0, 4), (30, 6))):
        view = seen(Interface(np.zeros(shape, np.float32), strides=strides))
        assert view.shape == shape and view.contiguous


def test_dlpack_arrays_are_inputs_that_are_ready_on_the_default_stream(gpu: FakeLibrary) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    value = OverDlpack(array[:, 1:])
    view = seen(value)
    assert (view.shape, view.strides, view.dtype.name, view.address) == ((3, 3), (4, 1), "FP32", array.ctypes.data + 4)
    assert (view.device, view.writable, value.asked) == ("cuda:1", False, [1])
    assert stream_of(view) == 0


def test_new_arrays_come_from_the_callers_framework(gpu: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    class Device:
        def __init__(self, index: int) -> None:
            self.index = index

        def __enter__(self) -> None: ...

        def __exit__(self, *error: object) -> None: ...

    cupy = SimpleNamespace(cuda=SimpleNamespace(Device=Device), zeros=lambda shape, dtype: ("cupy", shape, dtype))
    monkeypatch.setitem(__import__("sys").modules, "cupy", cupy)
    like = Interface(np.zeros(3, np.float32))
    assert isinstance(arrays.allocate(seen(like), (2, 3), FP32), DeviceArray)
    monkeypatch.setattr(Interface, "__module__", "cupy._core.core")
    assert arrays.allocate(seen(like), (2, 3), FP32) == ("cupy", (2, 3), np.dtype(np.float32))


def test_a_device_array_is_zeros_that_others_can_take_over_and_goes_back(gpu: FakeLibrary) -> None:
    made = DeviceArray((2, 3), BF16, 0)
    assert made.numpy().tolist() == np.zeros((2, 3)).tolist() and made.numpy().dtype == BF16.numpy
    view = seen(DeviceArray((4,), FP32, 0))
    assert view.shape == (4,) and view.address in gpu.taken
    assert repr(made) == "DeviceArray(shape=[2, 3], dtype=BF16, device='cuda:0')"
    del view, made
    gc.collect()
    assert gpu.taken == {}


def test_an_input_with_gaps_is_copied_by_its_own_framework(gpu: FakeLibrary) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    copy = contiguous(seen(Interface(array[:, ::2])))
    assert copy.contiguous
    assert np.ctypeslib.as_array(ctypes.cast(copy.address, ctypes.POINTER(ctypes.c_float)), (3, 2)).tolist() == array[:, ::2].tolist()
    with pytest.raises(ArgumentError, match="cannot be copied by us"):
        contiguous(seen(OverDlpack(array[:, ::2])))


STREAMS = [9, *(SimpleNamespace(**{name: 9}) for name in ("cuda_stream", "ptr")), SimpleNamespace(handle=ctypes.c_void_p(9))]


@pytest.mark.parametrize("stream", [*STREAMS, SimpleNamespace(__cuda_stream__=lambda: (0, 9))])
def test_streams_of_every_kind_have_a_handle(stream: Any, gpu: FakeLibrary) -> None:
    assert stream_handle(stream) == 9
    with on_stream(stream):
        program().run(arguments()[0])
    program().run(arguments()[0])
    assert [launched.stream for launched in gpu.launches] == [9, 0]


def test_what_is_no_stream_is_refused() -> None:
    with pytest.raises(ArgumentError, match="a str is no CUDA stream"):
        stream_handle("fast")


def test_a_captured_call_is_replayed_on_the_same_arrays(gpu: FakeLibrary) -> None:
    gpu.parameters, gpu.kernels["aligned"] = 6, scale
    given, x, out = arguments()
    announced: list[int] = []
    captured = program().capture(given, (), lambda: announced.append(gpu.calls.count("cuGraphLaunch")))
    assert gpu.launches == [] and out.sum() == 0 and announced == []
    for factor in (1, 2):
        x[:] = np.arange(10) * factor
        assert captured() is None
        np.testing.assert_array_equal(out, x * 2.5)
    assert gpu.calls.count("cuGraphLaunch") == 2 and gpu.calls.count("cuLaunchKernelEx") == 1
    assert announced == [0, 1]  # before each launch
    del captured
    assert gpu.calls[-1] == "cuGraphExecDestroy"


def test_the_memory_of_a_captured_call_stays_its_own(gpu: FakeLibrary) -> None:
    turn = "        mark = memory.mark()\n        memory.take(n)\n        memory.release(mark)\n"
    text = f"def call(stream, memory, x, n, out, by):\n    for _ in range(2):\n{turn}"
    captured = program(text=text, memory=True).capture(arguments()[0], (), lambda: None)
    assert gpu.calls.count("cuMemAllocAsync") == 2 and gpu.calls.count("cuMemFreeAsync") == 0
    del captured
    gc.collect()
    assert gpu.calls.count("cuMemFreeAsync") == 2
