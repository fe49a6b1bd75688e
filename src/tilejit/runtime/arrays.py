"""What a call is given: the metadata of arrays of any framework, and new arrays in the caller's framework."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np

from tilejit.dtypes import DTYPES, DType, dtype_of_numpy
from tilejit.errors import ArgumentError, DTypeError, ResourceError, ShapeError, TilejitError
from tilejit.kinds import is_a
from tilejit.runtime.call.memory import WORDS, word_at
from tilejit.runtime.targets import HOST


class Namespace(Protocol):
    """The functions of a framework with the array API."""

    def asarray(self, array: np.ndarray, /) -> object: ...


@dataclass(frozen=True, slots=True)
class Promised:
    """A result of a framework whose arrays a kernel cannot write: made of `array` when the call is over."""

    array: np.ndarray
    namespace: Namespace

    def made(self) -> object:
        return self.namespace.asarray(self.array)


@dataclass(slots=True)
class ArrayView:
    """An array as a kernel sees it. `owner` is the caller's object and keeps the memory alive."""

    owner: object = field(repr=False)
    framework: str
    """"numpy", "torch", "device" (a DeviceTensor), or "other"."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    dtype: DType
    address: int
    writable: bool
    device: str = HOST
    requires_grad: bool = False
    copied: str = ""
    """Why `address` is a copy of the caller's memory, which a kernel could read but not write; empty: it is that memory."""
    stream: int = 0
    """Of arrays in GPU memory whose framework says on which stream they are ready: its handle."""
    namespace: Namespace | None = field(default=None, repr=False)
    """Of arrays of another framework that has the array API: its functions."""

    @property
    def aligned(self) -> bool:
        """Whether elements lie at multiples of their size."""
        return self.address % self.dtype.get_byte() == 0 or 0 in self.shape

    @property
    def contiguous(self) -> bool:
        usual = contiguous_strides(self.shape)
        if self.strides == usual or 0 in self.shape:
            return True
        return all(n == 1 or have == want for n, have, want in zip(self.shape, self.strides, usual, strict=True))

    def byte_range(self) -> tuple[int, int]:
        """First address and first address past the cells."""
        if 0 in self.shape:
            return self.address, self.address
        reach = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        size = self.dtype.get_byte()
        before = sum([r for r in reach if r < 0])
        return self.address + before * size, self.address + (sum(reach) - before + 1) * size

    def numpy(self) -> np.ndarray:
        """The same memory as a NumPy array."""
        if isinstance(self.owner, np.ndarray):
            return cast("np.ndarray", self.owner)
        if self.device != HOST:
            raise ArgumentError(f"a tensor on {self.device} cannot be read from the CPU")
        size = self.dtype.get_byte()
        description: dict[str, object] = {
            "data": (self.address, not self.writable),
            "shape": self.shape,
            "strides": tuple(stride * size for stride in self.strides),
            "typestr": f"|V{size}" if 0 not in self.shape else "|V1",
            "version": 3,
        }
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype.numpy)
        return np.asarray(_Interface(description, self.owner)).view(self.dtype.numpy)


@dataclass(slots=True)
class _Interface:
    __array_interface__: dict[str, object]
    keep_alive: object


@dataclass(frozen=True, slots=True)
class DeviceTensor:
    """A contiguous tensor whose memory the caller owns; nothing is copied in or out."""

    data_ptr: int
    shape: tuple[int, ...]
    dtype: DType
    device: str = HOST

    def __post_init__(self) -> None:
        if not isinstance(self.dtype, DType):
            raise ArgumentError(f"a DeviceTensor's dtype is one of the language's, got {self.dtype!r}", help="pass pl.FP32 or another dtype of pl")
        object.__setattr__(self, "shape", tuple(int(extent) for extent in self.shape))
        if any(extent < 0 for extent in self.shape):
            raise ShapeError(f"a DeviceTensor's extents are not negative, got {list(self.shape)}", help="pass the shape of the memory")
        if not self.data_ptr and 0 not in self.shape:
            raise ArgumentError("a DeviceTensor needs the address of its memory, got 0", help="pass the address of the first element, x.data_ptr()")


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    out: list[int] = []
    step = 1
    for extent in reversed(shape):
        out.append(step)
        step *= extent
    return tuple(reversed(out))


def is_masked(value: np.ndarray) -> bool:
    """Whether an array has a mask. The module is not loaded for the question: without it there are none, and it takes longer than a first call."""
    return type(value) is not np.ndarray and "numpy.ma" in sys.modules and is_a(value, np.ma.MaskedArray)


def view_of(value: object) -> ArrayView | None:
    """The metadata of an array-like argument, or None when `value` is no array. Data is never read."""
    if is_a(value, np.ndarray):
        if is_masked(value):
            help = "pass x.filled(0.0), or x.data where all cells count"
            raise ArgumentError("a masked array has cells without a value, which a kernel would read or write", help=help)
        return _numpy_view(value, value, "numpy")
    if "torch" in sys.modules:
        from tilejit.runtime import torch

        found = torch.view_of(value)
        if found is not None:
            return found
    if is_a(value, Promised):
        return _numpy_view(value.array, value.array, "other")
    if is_a(value, DeviceTensor):
        return ArrayView(value, "device", tuple(value.shape), contiguous_strides(value.shape), value.dtype, value.data_ptr, True, value.device)
    if is_a(value, np.generic):
        return None
    if is_a(value, *_NO_ARRAYS):
        return None
    if described(value, "__array_interface__") is not None:
        return _numpy_view(np.asarray(value), value, "other")
    if described(value, "__cuda_array_interface__") is not None or hasattr(type(value), "__dlpack_device__"):
        from tilejit.runtime.cuda import arrays as device_arrays

        found = device_arrays.view_of(value)
        if found is not None:
            return found
    if hasattr(type(value), "__dlpack__"):
        return _numpy_view(np.from_dlpack(cast("np.ndarray", value)), value, "other")
    return None


def row_of(owner: object) -> object | None:
    """The memory of an `ArrayView`'s owner as an array of one dim; None where it is no array. `owner.reshape` may be anybody's, and copy."""
    if is_a(owner, np.ndarray):
        return np.asarray(owner).reshape(-1)
    if "torch" in sys.modules:
        from tilejit.runtime import torch

        return torch.row_of(owner)
    return None


_NO_ARRAYS = (dict, list, tuple, str, bytes, set, frozenset)
"""What is no array whatever it answers: of some dicts an attribute that they lack is a new member."""


def described(value: object, name: str) -> dict[str, Any] | None:
    """What an object says of its memory by a protocol of NumPy's; None where it says nothing: some answer to every name."""
    found: object = getattr(value, name, None)
    return cast("dict[str, Any]", found) if isinstance(found, dict) and "typestr" in found else None


def devices_of(values: Iterable[object]) -> tuple[str, ...]:
    """Where the tensors among `values` are, as far as they are not in the memory of this process."""
    return tuple(device for value in values if type(value) is not np.ndarray and (device := _device_of(value)) != HOST)


def _device_of(value: object) -> str:
    if is_a(value, DeviceTensor):
        return value.device
    if "torch" in sys.modules:
        from tilejit.runtime import torch

        found = torch.device_of(value)
        if found is not None:
            return found
    if not is_a(value, *_NO_ARRAYS) and (described(value, "__cuda_array_interface__") is not None or hasattr(type(value), "__dlpack_device__")):
        from tilejit.runtime.cuda import arrays as device_arrays

        return device_arrays.device_of(value)
    return HOST


def _numpy_view(array: np.ndarray, owner: object, framework: str) -> ArrayView:
    dtype = dtype_of_numpy(array.dtype)
    if dtype is None and not array.dtype.isnative:
        raise DTypeError(f"elements in the byte order of another machine ({array.dtype.str})", help="convert: x.astype(x.dtype.newbyteorder('='))")
    if dtype is None:
        raise unsupported_dtype("NumPy", str(array.dtype))
    size = array.itemsize
    strides = in_elements(array.strides, array.shape, size, "pass a copy: np.ascontiguousarray(x)")
    view = owner if framework == "numpy" else array
    namespace = getattr(owner, "__array_namespace__", None) if framework == "other" else None
    found = cast("Namespace", namespace()) if callable(namespace) and not is_a(owner, np.ndarray) else None
    return ArrayView(view, framework, array.shape, strides, dtype, data_address(array), array.flags.writeable, namespace=found)


def in_elements(strides: Sequence[int], shape: Sequence[int], size: int, help: str) -> tuple[int, ...]:
    """Strides in elements, of strides in bytes; those that no step takes may be anything, as in a field of a record."""
    if [stride for stride, extent in zip(strides, shape, strict=True) if stride % size and extent > 1] and 0 not in shape:
        raise ArgumentError(f"strides {tuple(strides)} are no multiple of the element size {size}", help=help)
    return tuple([stride // size for stride in strides])


def _address_in_struct(array: np.ndarray) -> int:
    """From the C struct of the array interface: works with every interpreter that has C extensions."""
    capsule = array.__array_struct__  # owns the struct
    return word_at(_capsule_pointer(capsule, None) + _DATA_AT)


_DATA_AT = 40  # PyArrayInterface: two, nd, typekind, itemsize, flags, shape, strides, data
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


_HEADER = object.__basicsize__


def _address_offset() -> int | None:
    samples = [np.zeros(3), np.zeros((2, 5), np.int8)[1:]]
    return _HEADER if WORDS is not None and all(word_at(id(sample) + _HEADER) == _address_in_struct(sample) for sample in samples) else None


ADDRESS_AT = _address_offset()
"""Where in an array object the address of its first element is: the first field after the object header; None where that is not so."""


def _address_in_object(array: np.ndarray) -> int:
    return word_at(id(array) + _HEADER)


data_address: Callable[[np.ndarray], int] = _address_in_struct if ADDRESS_AT is None else _address_in_object
"""The address of an array's first element, ten times as fast as `array.ctypes.data`."""


def unsupported_dtype(framework: str, name: str) -> DTypeError:
    """The error for an element type without a counterpart in the language."""
    column: Callable[[DType], str | None] = (lambda row: row.torch_name) if framework == "torch" else (lambda row: row.numpy_name)
    names = sorted({spelled for row in DTYPES.values() if (spelled := column(row)) is not None})
    return DTypeError(f"Unsupported {framework} dtype {name}", help=f"supported: {', '.join(names)}")


def allocate(like: ArrayView | None, shape: Sequence[int], dtype: DType) -> object:
    """A zero-filled array in the framework and on the device of `like`."""
    try:
        if like is not None and like.framework == "torch":
            from tilejit.runtime import torch

            return torch.zeros(shape, dtype, like.device)
        if like is not None and like.device != HOST:
            from tilejit.runtime.cuda import arrays as device_arrays

            return device_arrays.zeros(like, shape, dtype)
        if dtype.numpy_name is None:
            raise unsupported_dtype("NumPy", dtype.name)
        made = np.zeros(tuple(shape), dtype.numpy)
        return made if like is None or like.namespace is None else Promised(made, like.namespace)
    except (MemoryError, ValueError, RuntimeError) as error:  # as NumPy and torch say it
        if isinstance(error, TilejitError):
            raise
        extents = ", ".join(map(str, shape))
        raise ResourceError(f"there is no memory for a result of shape [{extents}] and dtype {dtype}", help="give the kernel smaller extents") from None


def scalar_of(value: object) -> int | float | bool | None:
    """The Python number of a Python, NumPy or torch scalar, else None; of a number with a class of its own what it holds."""
    if type(value) in (int, float, bool):
        return cast("int | float | bool", value)
    if is_a(value, int, float):
        return int.__int__(value) if is_a(value, int) else float.__float__(value)
    if is_a(value, np.generic) or (is_a(value, np.ndarray) and value.ndim == 0 and not is_masked(value)):
        item: object = value.item()
        return item if isinstance(item, bool | int | float) else None
    if "torch" in sys.modules:
        from tilejit.runtime import torch

        return torch.scalar_of(value)
    return None


def number_of(value: object) -> object:
    """An array without extents, where a number is taken, as the number that it holds; anything else as it is."""
    number = None if is_a(value, int, float, np.generic) else scalar_of(value)
    return value if number is None else number


def first_array(arguments: Sequence[object]) -> ArrayView | None:
    """The argument that decides in which framework new arrays are made."""
    return next((item for item in arguments if isinstance(item, ArrayView)), None)
