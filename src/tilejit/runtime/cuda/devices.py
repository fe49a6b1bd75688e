"""The GPUs of this process: one record each, with its context, its facts, and whether this process may use it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from tilejit.errors import ArgumentError, DeviceError, PlatformError
from tilejit.lazy import lazy
from tilejit.runtime.cuda import driver as api
from tilejit.runtime.cuda.driver import Driver
from tilejit.runtime.cuda.program import architecture_name
from tilejit.runtime.locks import new_lock

OLDEST = 80
"""Compute capability 8.0, the oldest that kernels are compiled for."""


@dataclass(frozen=True)
class Device:
    """One GPU."""

    index: int
    driver: Driver

    @lazy
    def handle(self) -> int:
        return self.driver.number("cuDeviceGet", self.index)

    @lazy
    def context(self) -> int:
        """The primary context, which torch, CuPy and all others use too."""
        return self.driver.word("cuDevicePrimaryCtxRetain", self.handle)

    def attribute(self, number: int) -> int:
        return self.driver.number("cuDeviceGetAttribute", number, self.handle)

    @lazy
    def capability(self) -> int:
        """Compute capability times ten: 90 is 9.0."""
        return 10 * self.attribute(api.COMPUTE_MAJOR) + self.attribute(api.COMPUTE_MINOR)

    @lazy
    def multiprocessors(self) -> int:
        return self.attribute(api.MULTIPROCESSORS)

    @lazy
    def name(self) -> str:
        text = ctypes.create_string_buffer(128)
        self.driver("cuDeviceGetName", text, 128, self.handle)
        return text.value.decode()

    def activate(self) -> None:
        """Make its context the current one of this thread."""
        self.driver("cuCtxSetCurrent", self.context)

    @contextmanager
    def active(self) -> Generator[None]:
        """Its context is current inside, and whatever was before, after."""
        before = self.driver.word("cuCtxGetCurrent")
        if before == self.context:
            yield
            return
        self.activate()
        try:
            yield
        finally:
            if before:
                self.driver("cuCtxSetCurrent", before)

    def host_memory(self, size: int) -> int:
        """The address of host memory that kernels can write; it stays until the process ends, because a kernel may write it until then."""
        with _lock:
            used, end = self._host_block
            if end - used < size:
                whole = max(_HOST_BLOCK, size)
                with self.active():
                    used = self.driver.word("cuMemHostAlloc", whole, api.PORTABLE_MAPPED)
                end = used + whole
            self._host_block[:] = used + -(-size // 64) * 64, end
            return used

    @lazy
    def _host_block(self) -> list[int]:
        """First free byte and end of a block that was allocated at once: the driver takes its time for each."""
        return [0, 0]

    @lazy
    def lock(self) -> int:
        """The address of a word that is 0: who adds to cells that are narrower than what a GPU adds to at once, in whatever kernel, has it meanwhile."""
        found = ctypes.c_uint64()
        with self.active():
            self.driver("cuMemAlloc_v2", ctypes.byref(found), LOCK)
            self.driver("cuMemsetD8Async", found.value, 0, LOCK, 0)
            self.driver("cuStreamSynchronize", 0)
        return found.value

    def synchronise(self) -> None:
        """Wait for everything that was launched on it."""
        with self.active():
            self.driver("cuCtxSynchronize")


_HOST_BLOCK = 1 << 16
LOCK = 4
"""Bytes of a lock."""
_devices: dict[int, Device] = {}
_lock = new_lock()
_forked = False


def device(index: int) -> Device:
    """The GPU with that number, checked once: it is there, and new enough."""
    found = _devices.get(index)
    if found is None:
        refuse_child()
        with _lock:
            found = _devices.get(index) or _devices.setdefault(index, _checked(index))
    return found


def _checked(index: int) -> Device:
    cuda = api.driver()
    there = count()
    if index >= there:
        raise ArgumentError(f"there is no device cuda:{index}: this process sees {there} GPU{'s' * (there != 1)}", help="look at CUDA_VISIBLE_DEVICES")
    found = Device(index, cuda)
    if found.capability < OLDEST:
        have = f"{found.capability // 10}.{found.capability % 10}"
        raise PlatformError(f"{found.name} has compute capability {have}; 8.0 or newer is needed", help="use a newer GPU, or platform='cpu'")
    return found


def count() -> int:
    """GPUs that this process sees."""
    return api.driver().number("cuDeviceGetCount")


def fingerprint(name: str = "cuda:0") -> str:
    """What of a GPU generated code depends on: its architecture, or that there is none."""
    try:
        return architecture_name(device(int(name.partition(":")[2] or 0)).capability)
    except PlatformError:
        return "no GPU"  # the setting or the option `arch` says what to compile for


def used() -> tuple[Device, ...]:
    """The GPUs that ran something."""
    return tuple(_devices.values())


def forked() -> bool:
    """Whether this process is the child of one that used a GPU."""
    return _forked


def refuse_child() -> None:
    """A context does not survive a fork: say so before the driver fails in some other way."""
    if _forked:
        raise DeviceError(
            "this process was forked from one that used the GPU, whose memory and kernels it cannot reach",
            help="start workers with the spawn method: multiprocessing.set_start_method('spawn')",
        )


_listeners: list[Callable[[], None]] = []


def when_forked(action: Callable[[], None]) -> None:
    """Run `action` in every child process."""
    _listeners.append(action)


def _in_child() -> None:
    global _forked
    _forked = _forked or bool(_devices)
    _devices.clear()
    for action in _listeners:
        action()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
