"""torch tensors as arguments; the only module that imports torch, and only when the caller already did."""

from __future__ import annotations

from collections.abc import Sequence

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
    copied = ""
    if value.is_neg() or value.is_conj():
        value, copied = value.detach().resolve_conj().resolve_neg(), "is a view that torch negates when it is read"
    return ArrayView(
        value, "torch", tuple(value.shape), value.stride(), dtype, value.data_ptr(), True, str(value.device), value.requires_grad, copied
    )


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


def thread_count() -> int:
    """Threads torch uses for one operation."""
    return torch.get_num_threads()
