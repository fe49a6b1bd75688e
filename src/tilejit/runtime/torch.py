"""torch tensors as arguments; the only module that imports torch, and only when the caller already did."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch

from tilejit.dtypes import DType, dtype_of_torch_name
from tilejit.errors import ArgumentError
from tilejit.runtime.arrays import ArrayView, unsupported_dtype


def view_of(value: object) -> ArrayView | None:
    """The metadata of a torch tensor, or None."""
    if not isinstance(value, torch.Tensor):
        return None
    if value.layout is not torch.strided:
        raise ArgumentError(f"a torch tensor with layout {value.layout} has no plain memory", help="pass x.to_dense()")
    name = str(value.dtype).removeprefix("torch.")
    dtype = dtype_of_torch_name(name)
    if dtype is None:
        raise unsupported_dtype("torch", name)
    if dtype.bits < 8 and dtype.kind != "bool":
        return _unpacked(value, dtype)
    if value.device.type == "cpu" and value.data_ptr() == 0 and value.numel():
        raise ArgumentError("a torch tensor whose storage was freed has no memory", help="pass a tensor that holds its elements")
    copied = ""
    if value.is_neg() or value.is_conj():
        value, copied = value.detach().resolve_conj().resolve_neg(), "is a view that torch negates when it is read"
    return ArrayView(
        value, "torch", tuple(value.shape), value.stride(), dtype, value.data_ptr(), True, str(value.device), value.requires_grad, copied
    )


def device_of(value: object) -> str:
    """Where a tensor is; what is no tensor is here."""
    return str(value.device) if isinstance(value, torch.Tensor) else "cpu"


def plain_facts(value: object, dtype: str | None, written: bool) -> tuple[tuple[int, ...], int] | None:
    """Shape and address of a dense CPU tensor of that dtype that a kernel can use as it is, else None."""
    if type(value) is not torch.Tensor or dtype is None or value.dtype is not getattr(torch, dtype, None):
        return None
    if value.layout is not torch.strided or not value.is_cpu or value.is_neg() or value.is_conj() or not value.is_contiguous():
        return None
    if (written and value.requires_grad) or value.dtype is _PACKED:
        return None
    address, size = value.data_ptr(), value.element_size()
    return None if address % size or (address == 0 and value.numel()) else (tuple(value.shape), address)


_PACKED = getattr(torch, "float4_e2m1fn_x2", None)


def _unpacked(value: torch.Tensor, dtype: DType) -> ArrayView:
    """Torch packs two 4-bit elements into a byte, the low half first: the last dim counts twice as many. Kernels see one element per byte."""
    if value.ndim == 0 or not value.shape[-1]:
        raise ArgumentError(f"a packed {dtype} tensor needs elements in its last dim, got shape {list(value.shape)}")
    packed = value.detach().view(torch.uint8)
    halves = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2).contiguous()
    copied = "is packed, two elements per byte"
    return ArrayView(halves, "torch", tuple(halves.shape), halves.stride(), dtype, halves.data_ptr(), True, str(value.device), False, copied)


def zeros(shape: Sequence[int], dtype: DType, device: str) -> torch.Tensor:
    """A zero-filled tensor."""
    packed = dtype.bits < 8 and dtype.kind != "bool"
    if dtype.torch_name is None or packed or not hasattr(torch, dtype.torch_name):
        raise unsupported_dtype("torch", dtype.name)
    return torch.zeros(tuple(shape), dtype=getattr(torch, dtype.torch_name), device=device)


def scalar_of(value: object) -> int | float | bool | None:
    """The Python number of a 0-d tensor on the CPU, else None."""
    if isinstance(value, torch.Tensor) and value.ndim == 0:
        item = value.item()
        return item if isinstance(item, bool | int | float) else None
    return None


@dataclass(frozen=True, slots=True)
class PlainTensor:
    """How to tell in C that a tensor is plain and dense on the CPU: nothing pending (negation, conjugation), nothing wrapped (vmap, functionalize)."""

    impl_at: int
    """Byte offset of the address of the C++ tensor in the Python object."""
    keys_at: int
    """Byte offset of its set of dispatch keys."""
    keys: int
    """What that set is for a plain tensor."""
    grad_at: int
    """Byte offset of the address of what autograd knows about the tensor: 0 as long as it knows nothing."""


_IMPL_WORDS = 26
"""Size of torch's C++ tensor in words: torch itself asserts that it does not grow."""


@cache
def plain_tensor() -> PlainTensor | None:
    """Found by looking, at tensors whose keys differ in a known way; None where that is not conclusive."""
    samples = [torch.empty(2), torch.empty(3, 1, dtype=torch.int64), torch.empty((), dtype=torch.complex64), torch.empty(4, requires_grad=True)]
    if any(type(sample) is not torch.Tensor or sample.device.type != "cpu" for sample in samples):
        return None
    first = samples[0]
    found = [at for at in range(16, 64, 8) if _word(id(first) + at) == first._cdata]
    if len(found) != 1:
        return None
    waiting = (torch._neg_view(first), samples[2].conj())  # type: ignore[reportPrivateImportUsage]
    for at in range(0, 8 * _IMPL_WORDS, 8):
        keys = _word(first._cdata + at)
        pending = {_word(other._cdata + at) ^ keys for other in waiting}
        if len(pending) == 2 and all(bits.bit_count() == 1 for bits in pending) and all(_word(sample._cdata + at) == keys for sample in samples):
            grad_at = _autograd_at(at)
            return None if grad_at is None else PlainTensor(found[0], at, keys - (1 << 64) if keys >> 63 else keys, grad_at)
    return None


def _autograd_at(end: int) -> int | None:
    """The only word before `end` that is 0 in a new tensor and not in one that requires grad. (Views are known to autograd in any case.)"""
    plain, leaf, result = torch.empty(4), torch.empty(4, requires_grad=True), torch.empty(4, requires_grad=True) * 2
    found = [at for at in range(0, end, 8) if not _word(plain._cdata + at) and _word(leaf._cdata + at) and _word(result._cdata + at)]
    if len(found) != 1:
        return None
    plain.requires_grad_()
    return found[0] if _word(plain._cdata + found[0]) else None


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def thread_count() -> int:
    """Threads torch uses for one operation."""
    return torch.get_num_threads()


@cache
def thread_count_function() -> int:
    """Address of the C function that tells the same, or 0 where torch has it under another name."""
    library = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
    try:
        function = ctypes.CDLL(library)._ZN2at15get_num_threadsEv  # at::get_num_threads()
    except (OSError, AttributeError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0
