"""A CUDA driver that is none: it keeps a record of every call, and its kernels are Python functions on the memory of this process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tilejit.runtime.cuda import devices
from tilejit.runtime.cuda import driver as api

Kernel = Callable[["Launched"], None]


def install(monkeypatch: pytest.MonkeyPatch, library: FakeLibrary) -> FakeLibrary:
    """Make it the driver of this process, until the test is over."""
    started = api.started(library)
    monkeypatch.setattr(api, "driver", lambda: started)
    monkeypatch.setattr(devices, "_devices", {})
    return library


@dataclass(frozen=True)
class Launched:
    """One launch as the driver was asked for it."""

    symbol: str
    grid: tuple[int, int, int]
    threads: int
    shared: int
    stream: int
    attributes: dict[int, tuple[int, ...]]
    slots: tuple[int, ...]
    """The 8 bytes at each parameter's address."""

    def floats(self, slot: int, count: int) -> Any:
        return (ctypes.c_float * count).from_address(self.slots[slot])


@dataclass
class FakeLibrary:
    """What `ctypes.CDLL("libcuda.so.1")` would be."""

    capability: int = 90
    devices: int = 1
    parameters: int = 0
    """How many values a launch reads; a real driver knows from the cubin."""
    counts: dict[str, int] = field(default_factory=dict[str, int])
    """The same by symbol, where kernels differ."""
    kernels: dict[str, Kernel] = field(default_factory=dict[str, Kernel])
    calls: list[str] = field(default_factory=list[str])
    launches: list[Launched] = field(default_factory=list[Launched])
    statuses: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Statuses to answer with, in order, before the calls of that name work."""
    taken: dict[int, Any] = field(default_factory=dict[int, Any])
    """Memory by address."""
    current: int = 0x1000
    capturing: bool = False
    attributes_set: dict[int, int] = field(default_factory=dict[int, int])
    symbols: list[str] = field(default_factory=list[str])
    modules: list[bytes] = field(default_factory=list[bytes])
    graphs: list[list[Launched]] = field(default_factory=list[list[Launched]])
    kept: list[object] = field(default_factory=list[object])

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        found = _Function(self, name)
        self.__dict__[name] = found
        return found

    def address_of(self, name: str) -> int:
        """A function for native code to call."""
        made = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(lambda *arguments: self.do(name, arguments))
        self.kept.append(made)
        return ctypes.cast(made, ctypes.c_void_p).value or 0

    # the functions ----------------------------------------------------------------------------------------------------------

    def do(self, name: str, arguments: Sequence[Any]) -> int:
        self.calls.append(name)
        waiting = self.statuses.get(name)
        if waiting:
            status = waiting.pop(0)
            if status:
                return status
        action = getattr(self, f"_{name}", None)
        return int(action(*arguments) or 0) if action is not None else 0

    def _cuDeviceGetCount(self, out: Any) -> None:
        _set(out, self.devices)

    def _cuDeviceGet(self, out: Any, index: int) -> None:
        _set(out, index)

    def _cuDeviceGetName(self, out: Any, size: int, device: int) -> None:
        out.value = b"Fake GPU"

    def _cuDeviceGetAttribute(self, out: Any, number: int, device: int) -> None:
        known = {api.COMPUTE_MAJOR: self.capability // 10, api.COMPUTE_MINOR: self.capability % 10, api.MULTIPROCESSORS: 4, api.SHARED_PER_BLOCK: 232448}
        _set(out, known.get(number, 1))

    def _cuDevicePrimaryCtxRetain(self, out: Any, device: int) -> None:
        _set(out, 0x1000 + device)

    def _cuCtxGetCurrent(self, out: Any) -> None:
        _set(out, self.current)

    def _cuCtxSetCurrent(self, context: int) -> None:
        self.current = context

    def _cuModuleLoadData(self, out: Any, code: bytes) -> None:
        self.modules.append(code)
        _set(out, 0x2000 + len(self.modules))

    def _cuModuleGetFunction(self, out: Any, module: int, symbol: bytes) -> None:
        self.symbols.append(symbol.decode())
        _set(out, 0x3000 + len(self.symbols))

    def _cuFuncSetAttribute(self, function: int, number: int, value: int) -> None:
        self.attributes_set[function] = value

    def _cuOccupancyMaxActiveBlocksPerMultiprocessor(self, out: Any, function: int, threads: int, shared: int) -> None:
        _set(out, 2)

    def _cuMemHostAlloc(self, out: Any, size: int, flags: int) -> None:
        _set(out, self.allocate(size))

    def _cuMemAllocAsync(self, out: Any, size: int, stream: int) -> None:
        _set(out, self.allocate(size))

    def _cuMemFreeAsync(self, address: int, stream: int) -> int:
        return 0 if self.taken.pop(address, None) is not None else 1

    def _cuMemAlloc_v2(self, out: Any, size: int) -> None:
        _set(out, self.allocate(size))

    def _cuMemFree_v2(self, address: int) -> int:
        return self._cuMemFreeAsync(address, 0)

    def _cuMemFreeHost(self, address: int) -> int:
        return self._cuMemFreeAsync(address, 0)

    def _cuMemcpyDtoHAsync_v2(self, to: int, source: int, size: int, stream: int) -> None:
        ctypes.memmove(to, source, size)

    def _cuMemcpyHtoDAsync_v2(self, to: int, source: int, size: int, stream: int) -> None:
        ctypes.memmove(to, source, size)

    def _cuMemcpyDtoDAsync_v2(self, to: int, source: int, size: int, stream: int) -> None:
        ctypes.memmove(to, source, size)

    def _cuMemsetD8Async(self, address: int, value: int, size: int, stream: int) -> None:
        ctypes.memset(address, value or 0, size)

    def _cuPointerGetAttribute(self, out: Any, number: int, address: int) -> None:
        _set(out, 0)

    def _cuStreamIsCapturing(self, stream: int, out: Any) -> None:
        _set(out, int(self.capturing))

    def _cuStreamCreate(self, out: Any, flags: int) -> None:
        _set(out, 0x5000 + self.calls.count("cuStreamCreate") - 1)

    def _cuEventCreate(self, out: Any, flags: int) -> None:
        _set(out, 0x8000 + self.calls.count("cuEventCreate"))

    def _cuEventElapsedTime(self, out: Any, start: int, end: int) -> None:
        _set(out, 0.25)

    def _cuStreamBeginCapture_v2(self, stream: int, mode: int) -> None:
        self.capturing = True
        self.graphs.append([])

    def _cuStreamEndCapture(self, stream: int, out: Any) -> None:
        self.capturing = False
        _set(out, 0x6000 + len(self.graphs))

    def _cuGraphInstantiateWithFlags(self, out: Any, graph: int, flags: int) -> None:
        _set(out, graph + 0x1000)

    def _cuGraphLaunch(self, graph: int, stream: int) -> None:
        for launched in self.graphs[graph - 0x7001]:
            self.run(launched)

    def _cuGetErrorName(self, status: int, out: Any) -> None:
        _set(out, f"CUDA_ERROR_{status}".encode())

    def _cuGetErrorString(self, status: int, out: Any) -> None:
        _set(out, b"something went wrong")

    def _cuLaunchKernelEx(self, config: int, function: int, params: int, extra: object) -> None:
        words = (ctypes.c_uint32 * 14).from_address(config)
        stream, attributes = (ctypes.c_uint64 * 2).from_address(config + 32)
        symbol = self.symbols[function - 0x3001]
        places = (ctypes.c_uint64 * self.counts.get(symbol, self.parameters)).from_address(params)
        slots = tuple(ctypes.c_uint64.from_address(place).value for place in places)
        given = {
            int(ctypes.c_uint32.from_address(attributes + 72 * at).value): tuple((ctypes.c_uint32 * 3).from_address(attributes + 72 * at + 8))
            for at in range(words[12])
        }
        launched = Launched(symbol, (words[0], words[1], words[2]), words[3], words[6], stream, given, slots)
        if self.capturing:
            self.graphs[-1].append(launched)
        else:
            self.run(launched)

    def run(self, launched: Launched) -> None:
        self.launches.append(launched)
        if launched.symbol in self.kernels:
            self.kernels[launched.symbol](launched)

    def allocate(self, size: int) -> int:
        memory = ctypes.create_string_buffer(b"\xa5" * (size + 256), size + 256)
        address = (ctypes.addressof(memory) + 255) & ~255
        self.taken[address] = memory
        return address


def _set(out: Any, value: object) -> None:
    out._obj.value = value


@dataclass
class _Function:
    """A function of the library; `restype` and `argtypes` are set on it as on a real one."""

    library: FakeLibrary
    name: str
    restype: object = None
    argtypes: Any = None

    def __call__(self, *arguments: Any) -> int:
        assert len(arguments) == len(self.argtypes), (self.name, arguments)
        for type, argument in zip(self.argtypes, arguments, strict=True):
            type.from_param(argument)  # what a real function would do with it
        return self.library.do(self.name, arguments)
