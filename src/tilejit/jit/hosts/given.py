"""What a call gives to a host function, as its text sees it: tensors that stand in for arrays, sizes of symbols, and memory for outputs that are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tilejit.errors import ArgumentError, ShapeError
from tilejit.jit.definition import Definition
from tilejit.jit.specialize.signature import JitParam
from tilejit.kinds import is_a
from tilejit.runtime.arrays import ArrayView, DeviceTensor, allocate, view_of
from tilejit.runtime.ranks import words
from tilejit.runtime.ranks.plan import HostTensor, StackedTensor
from tilejit.runtime.ranks.resident import Sharded, StackedDeviceTensor, array_of, home_of
from tilejit.runtime.targets import HOST
from tilejit.types.annotations import DynVar


@dataclass(frozen=True)
class Stack:
    """A tensor whose slices stay with ranks."""

    slices: Sequence[tuple[Any, int]]
    """Each with its rank."""
    local: ArrayView | None = None
    """The one that is an array of the caller."""


Stacks = dict[int, Stack]
"""By what stands for it."""


def unstacked(value: object, stacks: Stacks, world: int, here: Sequence[int]) -> object:
    """What stands for a tensor whose slices stay with ranks while arguments are bound: an array of its shape, without memory."""
    local: ArrayView | None = None
    if is_a(value, StackedDeviceTensor):
        slices = [(array_of(shard), home) for shard, home in zip(value.shards, value.worker_ids, strict=True)]
    elif is_a(value, Sharded):
        local = view_of(value.local)
        if local is None or not local.contiguous:
            raise ArgumentError("Sharded takes a tensor that lies in one piece", help="tilejit.runtime.Sharded(array)")
        if len(here) != 1:
            raise ArgumentError(f"a sharded tensor has one slice per process, this one has {len(here)} ranks", help="pass all slices as one tensor")
        slices = [(local.numpy() if rank in here else np.empty(local.shape, local.dtype.numpy), rank) for rank in range(world)]
    else:
        return value
    empty = np.broadcast_to(np.empty((), slices[0][0].dtype), (len(slices), *slices[0][0].shape))
    stacks[id(empty)] = Stack(slices, local)
    return empty


def tensor_of(definition: Definition, name: str, view: ArrayView | None, value: object, stacks: Stacks) -> HostTensor:
    """A parameter as the host function sees it."""
    stack = stacks.get(id(value))
    if stack is not None:
        assert isinstance(value, np.ndarray)
        return StackedTensor(value, name, shards=[HostTensor(array, name, home) for array, home in stack.slices])
    return HostTensor(_array(definition, name, view), name, home_of(value) if is_a(value, DeviceTensor) else None)


def device_of(definition: Definition, views: Mapping[str, ArrayView | None]) -> str:
    """Where the tensors of a call are, all in one place."""
    found = {view.device: name for name, view in views.items() if view is not None}
    if len(found) > 1:
        where = ", ".join(f"`{name}` on {device}" for device, name in found.items())
        raise ArgumentError(f"the tensors of {definition.name} are in several places: {where}", help="put them all on one device: its ranks share it")
    return next(iter(found), HOST)


def _array(definition: Definition, name: str, view: ArrayView | None) -> Any:
    if view is None:
        raise ArgumentError(f"{definition.label}: `{name}` must be a tensor", help="pass a NumPy array or a torch tensor")
    if view.device != HOST:
        return on_gpu(definition, name, view)
    return view.numpy() if view.contiguous else np.ascontiguousarray(view.numpy())


def on_gpu(definition: Definition, name: str, view: ArrayView) -> Any:
    """A tensor in memory that only kernels look at."""
    if not view.contiguous:
        raise ArgumentError(f"`{name}` of {definition.name} on {view.device} is not contiguous (strides {view.strides})", help="pass a contiguous tensor")
    return words.described(view.address, view.shape, view.dtype.numpy)


def symbols_of(params: Sequence[JitParam], views: Mapping[str, ArrayView | None]) -> dict[DynVar, int]:
    """The extents that dynamic symbols stand for in this call; they agree wherever they appear."""
    found: dict[DynVar, tuple[int, str]] = {}
    for param in params:
        view = views.get(param.name)
        if view is None or param.tensor is None or param.tensor.shape is None:
            continue
        if len(view.shape) != len(param.tensor.shape):
            raise ShapeError(f"`{param.name}` has {len(param.tensor.shape)} dims, got {list(view.shape)}", help="pass a tensor with as many dims")
        for axis, (dim, extent) in enumerate(zip(param.tensor.shape, view.shape, strict=True)):
            if is_a(dim, DynVar):
                known, other = found.setdefault(dim, (extent, param.name))
                if known != extent:
                    raise ShapeError(
                        f"dynamic extent `{dim.name}` is {known} in `{other}` but {extent} in dim {axis} of `{param.name}`",
                        help="pass tensors whose extents agree",
                    )
            elif dim != extent:
                raise ShapeError(
                    f"dim {axis} of `{param.name}` must be {dim}, got {extent}", help="pass a tensor of that shape, or make the extent dynamic with pl.dynamic"
                )
    return {symbol: extent for symbol, (extent, _) in found.items()}


def allocated(param: JitParam, like: ArrayView | None, symbols: Mapping[DynVar, int]) -> object:
    """Memory for an output that a call leaves out."""
    tensor = param.tensor
    if tensor is None or tensor.shape is None or tensor.dtype is None:
        raise ArgumentError(f"cannot allocate `{param.name}`: its annotation has no shape and dtype", help=f"pass `{param.name}`")
    shape = [symbols.get(dim) if is_a(dim, DynVar) else dim for dim in tensor.shape]
    if None in shape:
        raise ShapeError(f"cannot allocate `{param.name}`: no argument has all its extents", help=f"pass `{param.name}`")
    return allocate(like, cast("list[int]", shape), tensor.dtype)
