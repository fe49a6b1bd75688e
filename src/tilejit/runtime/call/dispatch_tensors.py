"""How the native dispatcher recognises arrays: what it must know of NumPy's and torch's objects, and of CPython's."""

from __future__ import annotations

import ctypes
import sys
import types

import numpy as np

from tilejit.runtime.call.dispatch_abi import HERE, Kind, State


class TensorKinds:
    """The kinds of arrays that a dispatcher has met; what it must know to look at them stands in its state."""

    def __init__(self, state: ctypes.Array[ctypes.c_int64]) -> None:
        self._state = state

    def classify(self, sample: object, kept: list[object]) -> tuple[Kind | None, int]:
        """How the dispatcher recognises arrays like `sample`. The sample itself is not kept: it is the caller's memory."""
        if type(sample) is np.ndarray:
            kept.append(sample.dtype)  # compared by its address, which must not go to another dtype
            return Kind.NUMPY, id(sample.dtype)
        torch = sys.modules.get("torch")
        if torch is None or type(sample) is not torch.Tensor or not self._know_torch(torch.Tensor):
            return None, 0
        view = (ctypes.c_int64 * 6)()
        exchange = self._state[State.TORCH_EXCHANGE]
        if ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(exchange)(sample, ctypes.addressof(view)) != 0:
            return None, 0
        if view[1] != HERE:
            from tilejit.runtime.torch_layout import plain_tensor_like

            plain = plain_tensor_like(sample)
            if plain is None:
                return None, 0
            self._state[State.TORCH_DEVICE_KEYS], self._state[State.TORCH_DEVICE_TYPE] = plain.keys, view[1] & 0xFFFFFFFF
        dtype = (view[2] >> 32) & 0xFFFFFFFF
        if dtype >> 16 != 1:
            return None, 0  # packed elements are unpacked by Python
        return self._numbered(sample, dtype)

    def _numbered(self, sample: object, dtype: int) -> tuple[Kind | None, int]:
        """By the number of the data type that the dispatcher will see."""
        from tilejit.runtime.torch_layout import dtype_number, plain_tensor

        plain = plain_tensor()
        if plain is None or plain.fields is None:
            return Kind.TORCH, dtype
        number = dtype_number(sample, plain.fields)
        return (None, 0) if number is None else (Kind.TORCH, number)

    def _know_torch(self, tensor_type: type) -> bool:
        from tilejit.runtime.torch import grad_mode_function
        from tilejit.runtime.torch_layout import plain_tensor

        exchange, plain = _torch_exchange(tensor_type), plain_tensor()
        if exchange is None or plain is None or not _is_c_attribute(tensor_type, "requires_grad"):
            return False
        state = self._state
        state[State.TORCH_EXCHANGE] = exchange
        state[State.REQUIRES_GRAD], state[State.REQUIRES_GRAD_CLOSURE] = _attribute_getter(tensor_type, "requires_grad")
        state[State.TORCH_IMPL_AT], state[State.TORCH_KEYS_AT], state[State.TORCH_KEYS] = plain.impl_at, plain.keys_at, plain.keys
        state[State.TORCH_GRAD_AT], state[State.TORCH_VERSIONS_AT], state[State.TORCH_VERSION_AT] = plain.grad_at, plain.versions_at, plain.version_at
        state[State.GRAD_MODE], state[State.TORCH_GRADED] = grad_mode_function(), plain.graded
        state[State.TORCH_DEVICE_KEYS] = state[State.TORCH_DEVICE_KEYS] or plain.keys
        if plain.fields is not None:
            fields = plain.fields
            state[State.TORCH_DATA_AT], state[State.TORCH_LAZY_AT], state[State.TORCH_OFFSET_AT] = fields.data, fields.lazy, fields.offset
            state[State.TORCH_SIZES_AT], state[State.TORCH_DTYPE_AT], state[State.TORCH_STORAGE_AT] = fields.sizes, fields.dtype, fields.storage
        state[State.TORCH_TYPE] = id(tensor_type)  # last: tensors are looked at from here on
        return True



def _is_c_attribute(cls: type, name: str) -> bool:
    found = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
    return isinstance(found, types.GetSetDescriptorType)


def _attribute_getter(cls: type, name: str) -> tuple[int, int]:
    """C function and closure of an attribute that a C type implements (PyGetSetDescrObject and PyGetSetDef of CPython)."""
    descriptor = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
    definition = ctypes.c_int64.from_address(id(descriptor) + 40).value
    return ctypes.c_int64.from_address(definition + 8).value, ctypes.c_int64.from_address(definition + 32).value


def _torch_exchange(tensor_type: type) -> int | None:
    """Address of torch's "fill a DLTensor without owning" function, in versions that have DLPack's C exchange."""
    return _exchange_function(tensor_type, 5)


def torch_calls() -> tuple[int, int] | None:
    """Addresses of torch's functions that tell the stream it works on now, and that allocate, as DLPack declares them; None: this torch has none."""
    torch = sys.modules.get("torch")
    found = () if torch is None else (_exchange_function(torch.Tensor, 6), _exchange_function(torch.Tensor, 2))
    return (found[0], found[1]) if found and found[0] is not None and found[1] is not None else None


def _exchange_function(tensor_type: type, position: int) -> int | None:
    capsule = getattr(tensor_type, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
    table = ctypes.cast(get(capsule, b"dlpack_exchange_api"), ctypes.POINTER(ctypes.c_uint64))
    major = table[0] & 0xFFFFFFFF
    return table[position] if major == 1 and table[position] else None

