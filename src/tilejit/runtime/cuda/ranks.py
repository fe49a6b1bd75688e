"""Ranks that share a GPU: threads of this process, each with a stream of its own; windows are memory of that GPU, contexts are host memory that it reads.

Kernels never wait for other ranks, so it does not matter which of them run at the same time: a rank waits on the host, with the record and the watch that
ranks of the CPU have.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilejit.dtypes import DType
from tilejit.errors import ArgumentError, UnsupportedFeatureError
from tilejit.runtime.arrays import view_of
from tilejit.runtime.artifact.entry import CompiledEntry
from tilejit.runtime.config import RunConfig
from tilejit.runtime.cuda import devices
from tilejit.runtime.cuda.arrays import DeviceArray
from tilejit.runtime.cuda.devices import Device
from tilejit.runtime.cuda.streams import seated
from tilejit.runtime.ranks import group, words
from tilejit.runtime.ranks.abi import HEADER
from tilejit.runtime.ranks.asked import Asked
from tilejit.runtime.ranks.engine import Engine
from tilejit.runtime.ranks.launches import tensor_at
from tilejit.runtime.ranks.memory import Memory
from tilejit.runtime.ranks.plan import Plan, Window, WindowBuffer

if TYPE_CHECKING:
    from tilejit.runtime.cuda.entry import DeviceProgram

NDArray = npt.NDArray[Any]
_NON_BLOCKING = 1
"""A stream that has no order with the default stream."""
_CONTEXTS = 1 << 16
_comms: dict[int, int] = {}
"""The contexts of the windows of running calls, by their addresses on a GPU."""


def _address(array: NDArray) -> int:
    return int(array.__array_interface__["data"][0])


class Lane:
    """What a rank has on its GPU: a stream for its kernels, and one to look at cells while they run."""

    def __init__(self, device: Device) -> None:
        self.device = device
        with device.active():
            self.stream, self._looks = (device.driver.word("cuStreamCreate", _NON_BLOCKING) for _ in range(2))
        _lanes[self.stream] = self

    def settle(self) -> None:
        """Everything that was launched is done."""
        with self.device.active():
            self.device.driver("cuStreamSynchronize", self.stream)

    def cell(self, address: int) -> int:
        """The cell of a signal, as it is now."""
        found = ctypes.c_int32()
        with self.device.active():
            self.device.driver("cuMemcpyDtoHAsync_v2", ctypes.addressof(found), address, 4, self._looks)
            self.device.driver("cuStreamSynchronize", self._looks)
        return found.value

    # arrays: they describe memory of the GPU, and are never looked at from here --------------------------------------------

    def read(self, array: NDArray) -> NDArray:
        """A copy in memory of this process."""
        if not array.size:
            return np.empty(array.shape, array.dtype)
        reach = sum((extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True)) + array.itemsize
        content = np.empty(reach, np.uint8)
        with self.device.active():
            self.device.driver("cuMemcpyDtoHAsync_v2", content.ctypes.data, _address(array), reach, self.stream)
        self.settle()
        return np.ndarray(array.shape, array.dtype, content, 0, array.strides).copy()

    def write(self, into: NDArray, value: NDArray) -> None:
        """Nothing between the cells of `into` is touched."""
        if not into.size:
            return
        if not into.flags.c_contiguous:
            for part, cells in zip(into, np.broadcast_to(value, into.shape), strict=True):
                self.write(part, cells)
            return
        content = np.ascontiguousarray(np.broadcast_to(value, into.shape), into.dtype)
        with self.device.active():
            self.device.driver("cuMemcpyHtoDAsync_v2", _address(into), content.ctypes.data, content.nbytes, self.stream)
        self.settle()

    def copy(self, into: NDArray, source: NDArray) -> None:
        """From memory of the GPU to memory of the GPU."""
        if not into.size:
            return
        if not (into.flags.c_contiguous and source.flags.c_contiguous):
            self.write(into, self.read(source).reshape(into.shape))
            return
        with self.device.active():
            self.device.driver("cuMemcpyDtoDAsync_v2", _address(into), _address(source), into.nbytes, self.stream)
        self.settle()


_lanes: dict[int, Lane] = {}
"""By the streams of their kernels."""


class _Place:
    """What the ranks of an engine have on one GPU, from call to call."""

    def __init__(self, device: Device, world: int) -> None:
        self.device = device
        self.lanes = [Lane(device) for _ in range(world)]
        self.contexts, self.room = device.host_memory(_CONTEXTS), _CONTEXTS
        self._windows, self._size = 0, 0

    def windows(self, size: int) -> int:
        """The address of so many bytes; they stay from call to call."""
        if size > self._size:
            with self.device.active():
                if self._windows:
                    self.device.driver("cuMemFree_v2", self._windows)
                self._size, found = 0, ctypes.c_uint64()
                self.device.driver("cuMemAlloc_v2", ctypes.byref(found), size)
                self._windows, self._size = found.value, size
        return self._windows


_places: dict[tuple[Engine, str], _Place] = {}
devices.when_forked(_places.clear)


class DeviceMemory(Memory):
    """Windows on a GPU; the blocks of groups stay in memory of this process."""

    def __init__(self, engine: Engine, plan: Plan, more: int) -> None:
        if engine.several:
            raise UnsupportedFeatureError("ranks on a GPU are threads of one process", help="run the script once, without a launcher")
        device = devices.device(int(plan.device.partition(":")[2] or 0))
        key = engine, plan.device
        self.place = _places.get(key) or _places.setdefault(key, _Place(device, engine.world))
        self.device, self.lanes = device, self.place.lanes
        self._used = 0
        super().__init__(engine, plan, more)
        self._first = self.place.windows(max(self.stride, 1) * engine.world)
        device.synchronise()  # what made the arguments may still run on the caller's streams

    def copy_of(self, buffer: WindowBuffer, rank: int) -> int:
        return self._first + rank * self.stride + self._inner[buffer.number]

    def window(self, window: Window, rank: int) -> NDArray:
        return words.described(self.copy_of(window.buffer, rank), window.shape, window.dtype.numpy)

    def cell(self, rank: int, address: int) -> int:
        return self.watching.cell(address)

    @property
    def watching(self) -> Lane:
        """For whoever watches over the ranks."""
        return self.lanes[0]

    def argument(self, array: NDArray) -> object:
        return tensor_at(array, self.plan.device)

    def take(self, rank: int, into: NDArray, made: object) -> None:
        found = view_of(made)
        assert found is not None
        self.lanes[rank].copy(into, words.described(found.address, found.shape, found.dtype.numpy, found.strides))

    def access(self, rank: int) -> Lane:
        return self.lanes[rank]

    def run_config(self, rank: int, threads: int) -> RunConfig:
        return RunConfig(stream=self.lanes[rank].stream)

    @contextmanager
    def running(self, rank: int) -> Generator[None]:
        with self.device.active(), seated(self.lanes[rank].stream):
            yield

    def settle(self, rank: int, entry: CompiledEntry) -> None:
        from tilejit.runtime.cuda.entry import CudaEntry

        runner: object = entry.runner
        assert isinstance(runner, CudaEntry)
        runner.program.on(self.device.index).settle(self.lanes[rank].stream)

    def clear(self, rank: int, address: int, size: int) -> None:
        with self.device.active():
            self.device.driver("cuMemsetD8Async", address, 0, size, self.lanes[rank].stream)
        self.lanes[rank].settle()

    def row(self, size: int) -> NDArray:
        first, self._used = self._used, self._used + 8 * size
        if self._used > self.place.room:  # the next one has room for as many again; rows of this call stay where they are
            self.place.room = max(2 * self.place.room, 8 * size)
            self.place.contexts, first, self._used = self.device.host_memory(self.place.room), 0, 8 * size
        row = words.described(self.place.contexts + first, (size,), np.dtype(np.int64))
        row[:] = 0
        return row

    def write_header(self, buffer: WindowBuffer, rank: int, context: int) -> None:
        header = np.zeros(HEADER // 8, np.int64)
        header[0] = context
        window = self.copy_of(buffer, rank)
        self.lanes[rank].write(words.described(window - HEADER, header.shape, header.dtype), header)
        _comms[window] = context
        group.accesses[context] = self.lanes[rank]

    def forget(self) -> None:
        super().forget()
        for buffer in self.plan.buffers:
            for rank in buffer.ranks:
                _comms.pop(self.copy_of(buffer, rank), None)


class OnDevice(Asked):
    """Answers the host program of a rank's kernels."""

    def __init__(self, loaded: DeviceProgram) -> None:
        self._loaded = loaded

    def comm(self, stream: int, window: int) -> int:
        found = _comms.get(window)
        if found is None:
            raise ArgumentError("this is no window of a call that runs now", help="let a host function make it: pld.alloc_window_buffer and pld.window")
        return found

    def cell(self, stream: int, address: int) -> int:
        return _lanes[stream].cell(address)

    def settle(self, stream: int) -> None:
        self._loaded.settle(stream)


def zeros(plan: Plan, shape: Sequence[int], dtype: DType) -> NDArray:
    """New memory on the GPU of a call, as an array that describes it."""
    made = DeviceArray(shape, dtype, int(plan.device.partition(":")[2] or 0))
    plan.held.append(made)
    return words.described(made.address, made.shape, dtype.numpy)
