"""Arrays in GPU memory of any framework: read through the CUDA array interface or DLPack, made by the caller's framework; none of them is imported."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tilejit.dtypes import DTYPES, DType, dtype_of_numpy
from tilejit.errors import ArgumentError
from tilejit.runtime.arrays import ArrayView, contiguous_strides, described, in_elements, unsupported_dtype
from tilejit.runtime.cuda import devices, driver
from tilejit.runtime.cuda.copies import fetch
from tilejit.runtime.cuda.streams import seat
from tilejit.runtime.targets import HOST

_DEVICE_OF_POINTER = 9
_ON_GPU = (2, 13)
"""DLPack's numbers for CUDA memory: plain and managed."""
_DLPACK_TYPES = {
    (0, 8): "INT8", (0, 16): "INT16", (0, 32): "INT32", (0, 64): "INT64", (1, 8): "UINT8", (1, 16): "UINT16", (1, 32): "UINT32", (1, 64): "UINT64",
    (2, 16): "FP16", (2, 32): "FP32", (2, 64): "FP64", (4, 16): "BF16", (6, 8): "BOOL", (10, 8): "FP8E4M3FN", (12, 8): "FP8E5M2", (14, 8): "FP8E8M0",
}  # fmt: skip
"""DLPack's (code, bits) → the language's data type."""
_DEFAULT_STREAM = 1


def view_of(value: object) -> ArrayView | None:
    """The metadata of an array in GPU memory, or None when `value` is none. Data is never read."""
    if isinstance(value, DeviceArray):
        return value.view()
    interface = described(value, "__cuda_array_interface__")
    if interface is not None and np.dtype(interface["typestr"]).kind != "V":
        return _through_interface(value, interface)
    if hasattr(type(value), "__dlpack_device__") and hasattr(type(value), "__dlpack__"):
        kind, index = cast("Any", value).__dlpack_device__()
        if int(kind) in _ON_GPU:
            return _through_dlpack(value, int(index))
    return None


def device_of(value: object) -> str:
    """Where an array with the CUDA array interface or DLPack is."""
    if isinstance(value, DeviceArray):
        return value.device
    interface = described(value, "__cuda_array_interface__")
    if interface is not None:
        return _on(interface["data"][0])
    kind, index = cast("Any", value).__dlpack_device__()
    return f"cuda:{int(index)}" if int(kind) in _ON_GPU else HOST


def _on(address: int | None) -> str:
    return f"cuda:{_device_of(int(address)) if address else 0}"


def _through_interface(value: object, interface: dict[str, Any]) -> ArrayView:
    dtype = dtype_of_numpy(np.dtype(interface["typestr"]))
    if dtype is None:
        raise unsupported_dtype("NumPy", str(np.dtype(interface["typestr"])))
    if interface.get("mask") is not None:
        raise ArgumentError("an array with a mask has cells that a kernel would not leave out", help="pass an array without a mask")
    address, read_only = interface["data"]
    shape, size = tuple(int(extent) for extent in interface["shape"]), dtype.get_byte()
    given = interface.get("strides")
    strides = contiguous_strides(shape) if given is None else in_elements([int(stride) for stride in given], shape, size, "pass a contiguous copy")
    return ArrayView(value, "other", shape, strides, dtype, int(address or 0), not read_only, _on(address), stream=int(interface.get("stream") or 0))


def _device_of(address: int) -> int:
    """Which GPU some memory belongs to."""
    found = ctypes.c_int()
    driver.driver()("cuPointerGetAttribute", ctypes.byref(found), _DEVICE_OF_POINTER, address)
    return found.value


class _Tensor(ctypes.Structure):
    """DLTensor, the first field of what a capsule holds."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


def _through_dlpack(value: object, index: int) -> ArrayView:
    """Whoever hands out DLPack only (JAX) does not want its memory written: such arrays are inputs."""
    capsule = cast("Any", value).__dlpack__(stream=_DEFAULT_STREAM)  # ready for use on the default stream; freed unused when it goes
    tensor = _Tensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    name = _DLPACK_TYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if name is None:
        raise unsupported_dtype("NumPy", f"DLPack type {tensor.code} of {tensor.bits} bits")
    shape = tuple(tensor.shape[: tensor.rank])
    strides = tuple(tensor.strides[: tensor.rank]) if tensor.strides else contiguous_strides(shape)
    return ArrayView(value, "other", shape, strides, DTYPES[name], tensor.data + tensor.byte_offset, False, f"cuda:{index}", stream=_DEFAULT_STREAM)


# ----------------------------------------------------------------------------------------------------------------------
# new arrays


class DeviceArray:
    """A new array in GPU memory, for callers whose framework has no way to make one that we know; others take it over without a copy."""

    def __init__(self, shape: Sequence[int], dtype: DType, index: int, stream: int = 0) -> None:
        self.shape, self.dtype, self._stream = tuple(shape), dtype, stream
        self._device = devices.device(index)
        self._size = int(np.prod(self.shape, dtype=np.int64)) * dtype.get_byte()
        address = ctypes.c_uint64()
        with self._device.active():
            self._device.driver("cuMemAllocAsync", ctypes.byref(address), max(1, self._size), stream)
            self.address = address.value
            self._device.driver("cuMemsetD8Async", self.address, 0, max(1, self._size), stream)
            if seat():  # the streams of ranks have no order with others
                self._device.driver("cuStreamSynchronize", stream)

    @classmethod
    def of(cls, array: np.ndarray, index: int = 0) -> DeviceArray:
        """A copy of a NumPy array on a GPU."""
        dtype = dtype_of_numpy(array.dtype)
        if dtype is None:
            raise unsupported_dtype("NumPy", str(array.dtype))
        made, source = cls(array.shape, dtype, index), np.ascontiguousarray(array)
        with made._device.active():
            made._device.driver("cuMemcpyHtoDAsync_v2", made.address, source.ctypes.data, made._size, 0)
            made._device.driver("cuStreamSynchronize", 0)
        return made

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {"shape": self.shape, "typestr": self.dtype.numpy.str, "data": (self.address, False), "version": 3, "stream": self._stream or _DEFAULT_STREAM}

    def view(self) -> ArrayView:
        """What a kernel sees of it."""
        return ArrayView(self, "other", self.shape, contiguous_strides(self.shape), self.dtype, self.address, True, self.device, stream=self._stream)

    def numpy(self) -> np.ndarray:
        """A copy in the memory of this process, after everything before it on the stream."""
        out = np.empty(self.shape, self.dtype.numpy)
        fetch(self._device, self._stream, self.address, out)
        return out

    def __repr__(self) -> str:
        return f"DeviceArray(shape={list(self.shape)}, dtype={self.dtype}, device={self.device!r})"

    @property
    def device(self) -> str:
        return f"cuda:{self._device.index}"

    def __del__(self) -> None:
        if hasattr(self, "address"):
            self._device.driver.raw("cuMemFreeAsync")(self.address, self._stream)


def zeros(like: ArrayView, shape: Sequence[int], dtype: DType) -> object:
    """A zero-filled array where `like` is, of its framework if that is one we know."""
    index = int(like.device.partition(":")[2] or 0)
    root = type(like.owner).__module__.partition(".")[0]
    make = _MAKERS.get(root)
    if make is not None and root in sys.modules:
        return make(sys.modules[root], tuple(shape), dtype, index)
    return DeviceArray(shape, dtype, index, like.stream if like.stream != _DEFAULT_STREAM else 0)


def _cupy_zeros(cupy: Any, shape: tuple[int, ...], dtype: DType, index: int) -> object:
    with cupy.cuda.Device(index):
        return cupy.zeros(shape, dtype.numpy)


def _numba_zeros(numba: Any, shape: tuple[int, ...], dtype: DType, index: int) -> object:
    with numba.cuda.gpus[index]:
        return numba.cuda.to_device(np.zeros(shape, dtype.numpy))


_MAKERS: dict[str, Callable[[Any, tuple[int, ...], DType, int], object]] = {"cupy": _cupy_zeros, "numba": _numba_zeros}


def contiguous(view: ArrayView) -> ArrayView:
    """An input whose cells lie one after the other: a copy made by its own framework."""
    copy = getattr(view.owner, "contiguous", None) or getattr(view.owner, "copy", None)
    if copy is None:
        raise ArgumentError(f"an array with strides {view.strides} on {view.device} cannot be copied by us", help="pass a contiguous array")
    made: object = copy()
    from tilejit.runtime import arrays

    found = arrays.view_of(made)
    assert found is not None and found.contiguous
    return found
