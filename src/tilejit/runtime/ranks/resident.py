"""Tensors that stay with a rank between calls, one by one or as the shards of a larger one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.dtypes import UINT8, DType, dtype_of_numpy
from tilejit.runtime.arrays import DeviceTensor, view_of
from tilejit.runtime.call.autograd import note_write
from tilejit.runtime.call.signature import check_writable

NDArray = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class StackedDeviceTensor:
    """A tensor `[B, *tail]` of which shard i stays with rank `worker_ids[i]`; `x[i]` is that shard."""

    shards: tuple[DeviceTensor, ...]
    full_shape: tuple[int, ...]
    worker_ids: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.shards) != len(self.worker_ids) or len(self.shards) != self.full_shape[0]:
            counts = f"{len(self.shards)} shards, {len(self.worker_ids)} ranks, {self.full_shape[0]} slices"
            raise ValueError(f"a stacked tensor has as many shards as ranks and slices, got {counts}")

    def __getitem__(self, index: int) -> DeviceTensor:
        return self.shards[index]


@dataclass(frozen=True, eq=False)
class Sharded:
    """Stands for `[W, *local.shape]` in a job of several processes: each has the slice of its own rank, and nobody gets another one."""

    local: object


_homes: dict[int, tuple[NDArray, int]] = {}
"""By address: the memory of a tensor that stays with a rank, and that rank."""


def home_of(tensor: DeviceTensor) -> int | None:
    """The rank that a tensor stays with; None: nobody keeps it."""
    found = _homes.get(tensor.data_ptr)
    return None if found is None else found[1]


def array_of(tensor: DeviceTensor) -> NDArray:
    """The memory of a resident tensor."""
    view = view_of(tensor)
    assert view is not None
    return view.numpy()


class Residents:
    """The resident tensors of a worker: each is filled in the process of its rank only; the others have its address space."""

    def __init__(self, world: Callable[[], int], is_here: Callable[[int], bool], bring: Callable[[Sequence[tuple[NDArray, int, NDArray]]], None]) -> None:
        self._world, self._is_here, self._bring = world, is_here, bring
        """`bring` fills arrays of the caller from arrays that are whole on some rank only."""
        self._own: set[int] = set()

    def _keep(self, shape: Sequence[int], dtype: DType, worker_id: int, init: object = None) -> DeviceTensor:
        if not 0 <= worker_id < self._world():
            raise ValueError(f"worker_id={worker_id}: the world has the ranks 0 to {self._world() - 1}")
        array = np.zeros(tuple(shape), dtype.numpy)
        if init is not None and self._is_here(worker_id):
            array[...] = _numpy(init)
        tensor = DeviceTensor(int(array.__array_interface__["data"][0]), tuple(array.shape), dtype)
        _homes[tensor.data_ptr] = (array, worker_id)
        self._own.add(tensor.data_ptr)
        return tensor

    def alloc_tensor(self, shape: Sequence[int], dtype: DType, *, init: object = None, worker_id: int = 0) -> DeviceTensor:
        """A tensor that stays with a rank; zero, or what `init` holds."""
        return self._keep(shape, dtype, worker_id, init)

    def free_tensor(self, tensor: DeviceTensor) -> None:
        """Let go of a tensor."""
        self.free(tensor.data_ptr)

    def malloc(self, nbytes: int, *, worker_id: int = 0) -> int:
        """The address of memory that stays with a rank."""
        return self._keep([max(nbytes, 1)], UINT8, worker_id).data_ptr

    def free(self, address: int) -> None:
        """Let go of memory."""
        if address not in self._own:
            raise ValueError(f"{address:#x} is no memory of this worker, or it was freed")
        self._own.discard(address)
        del _homes[address]

    def copy_to(self, tensor: DeviceTensor, host: object) -> None:
        """Fill a resident tensor."""
        home = home_of(tensor)
        if home is None or self._is_here(home):
            array_of(tensor)[...] = _numpy(host)

    def copy_from(self, tensor: DeviceTensor, host: object) -> None:
        """Fill an array of the caller with what a resident tensor holds; with several processes, all call this."""
        self._copy([(tensor, _target(host))])

    def _copy(self, pairs: Sequence[tuple[DeviceTensor, NDArray]]) -> None:
        for tensor, target in pairs:
            if home_of(tensor) is None:
                target[...] = array_of(tensor)
        self._bring([(array_of(tensor), home, target) for tensor, target in pairs if (home := home_of(tensor)) is not None])

    def alloc_stacked_tensor(self, host: object, *, worker_ids: Sequence[int] | None = None) -> StackedDeviceTensor:
        """Slice i of an array as a tensor that stays with rank `worker_ids[i]`."""
        array = _numpy(host)
        ids = tuple(range(len(array)) if worker_ids is None else worker_ids)
        if array.ndim < 1 or len(ids) != len(array) or len(set(ids)) != len(ids):
            raise ValueError(f"worker_ids names a different rank for each of the {len(array)} slices, got {list(ids)}")
        dtype = dtype_of_numpy(array.dtype)
        if dtype is None:
            raise ValueError(f"there are no tensors of {array.dtype}")
        shards = tuple(self._keep(part.shape, dtype, rank, part) for part, rank in zip(array, ids, strict=True))
        return StackedDeviceTensor(shards, tuple(array.shape), ids)

    def free_stacked_tensor(self, stacked: StackedDeviceTensor) -> None:
        """Let go of all shards."""
        for shard in stacked.shards:
            self.free_tensor(shard)

    def copy_stacked_from(self, stacked: StackedDeviceTensor, host: object) -> None:
        """Fill an array of the caller with what the shards hold; with several processes, all call this."""
        target = _target(host)
        if tuple(target.shape) != stacked.full_shape:
            raise ValueError(f"the stacked tensor is {list(stacked.full_shape)}, the array {list(target.shape)}")
        self._copy([(shard, target[number : number + 1].reshape(shard.shape)) for number, shard in enumerate(stacked.shards)])

    def free_all(self) -> None:
        """The worker ends."""
        for address in list(self._own):
            self.free(address)


def _target(host: object) -> Any:
    """An array of the caller, about to be filled."""
    view = view_of(host)
    if view is not None:
        check_writable("host", view)
        note_write(host)
    return _numpy(host)


def _numpy(value: object) -> Any:
    view = view_of(value)
    return view.numpy() if view is not None else np.asarray(value)
