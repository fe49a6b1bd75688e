"""Scratch memory of a call: from torch's allocator where torch called, else from the driver's, in the order of the stream."""

from __future__ import annotations

import ctypes
import sys
from typing import Protocol

from tilejit.runtime.cuda.devices import Device

_ALIGN = 256
"""What both allocators promise."""


class Memory(Protocol):
    """Memory that lives until it is released; kernels launched before on the same stream may still use it then."""

    def take(self, size: int) -> int:
        """The address of that many bytes."""
        ...

    def mark(self) -> int:
        """What `release` gives back to: all that is taken later."""
        ...

    def release(self, mark: int = 0) -> None: ...

    def keep(self, size: int) -> int:
        """As `take`, until the end of the call."""
        ...


class DriverMemory:
    """From the driver's own pool."""

    def __init__(self, device: Device, stream: int) -> None:
        self._device, self._stream = device, stream
        self._taken: list[int] = []
        self._kept: list[int] = []

    def _allocate(self, size: int) -> int:
        found = ctypes.c_uint64()
        self._device.driver("cuMemAllocAsync", ctypes.byref(found), max(size, 1), self._stream)
        return found.value

    def take(self, size: int) -> int:
        self._taken.append(self._allocate(size))
        return self._taken[-1]

    def keep(self, size: int) -> int:
        self._kept.append(self._allocate(size))
        return self._kept[-1]

    def mark(self) -> int:
        return len(self._taken)

    def release(self, mark: int = 0) -> None:
        gone, self._taken = self._taken[mark:], self._taken[:mark]
        for address in gone:
            self._device.driver("cuMemFreeAsync", address, self._stream)

    def close(self) -> None:
        """The end of the call."""
        self._taken, self._kept = self._taken + self._kept, []
        self.release()


class TorchMemory:
    """From torch's caching allocator, which knows that what is freed may be used by whatever follows on the same stream."""

    def __init__(self, device: Device, stream: int) -> None:
        from tilejit.runtime import torch

        self._allocate = torch.device_bytes(device.index, stream)
        self._taken: list[object] = []
        self._kept: list[object] = []

    def take(self, size: int) -> int:
        owner, address = self._allocate(size)
        self._taken.append(owner)
        return address

    def keep(self, size: int) -> int:
        owner, address = self._allocate(size)
        self._kept.append(owner)
        return address

    def mark(self) -> int:
        return len(self._taken)

    def release(self, mark: int = 0) -> None:
        del self._taken[mark:]

    def close(self) -> None:
        self._taken.clear()
        self._kept.clear()


def memory_for(device: Device, stream: int, framework: str) -> DriverMemory | TorchMemory:
    """Memory for a call with arrays of that framework."""
    return TorchMemory(device, stream) if framework == "torch" and "torch" in sys.modules else DriverMemory(device, stream)
