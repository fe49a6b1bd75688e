"""Scenarios of ranks with their tensors on a GPU: the one of this machine, or one that is made of a fake driver and Triton's interpreter."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

from tests.runtime.cuda.fake import FakeLibrary, Launched
from tilejit.backends.cuda import assemble, plan
from tilejit.dtypes import dtype_of_numpy
from tilejit.jit.hosts import distributed, ranks
from tilejit.runtime.arrays import DeviceTensor
from tilejit.runtime.cuda import devices, launcher
from tilejit.runtime.cuda import driver as api
from tilejit.runtime.cuda.arrays import DeviceArray
from tilejit.runtime.cuda.program import LaunchFacts

REFUSED = {
    "resident": "tensors that stay with ranks are in the memory of the process",
}
"""What a GPU does not do, and why."""


@contextmanager
def moved(there: Callable[[np.ndarray], Any], back: Callable[[np.ndarray, Any], None]) -> Generator[None]:
    """Inside, host functions are called with their arrays on a GPU."""
    plain = ranks.run_host

    def run(definition: Any, args: Sequence[object], named: Mapping[str, object], *rest: Any, **more: Any) -> object:
        arrays = {at: value for at, value in enumerate(args) if isinstance(value, np.ndarray)}
        on = {at: there(array) for at, array in arrays.items()}
        result = plain(definition, tuple(on.get(at, value) for at, value in enumerate(args)), named, *rest, **more)
        for at, array in arrays.items():
            back(array, on[at])
        return result

    known = mock.patch.dict(_current, plain=plain, there=(there, back))
    with mock.patch.object(ranks, "run_host", run), mock.patch.object(distributed, "run_host", run), known:
        yield


_current: dict[str, Any] = {}


def there() -> Any:
    """How an array gets to the GPU, and back."""
    return _current["there"]


@contextmanager
def elsewhere() -> Generator[None]:
    """Inside, arrays stay where they are."""
    with mock.patch.object(ranks, "run_host", _current["plain"]), mock.patch.object(distributed, "run_host", _current["plain"]):
        yield


def on_this_gpu() -> Any:
    """The GPU of this machine."""

    def back(array: np.ndarray, found: DeviceArray) -> None:
        array[...] = found.numpy()

    return moved(DeviceArray.of, back)


# a GPU that is none -----------------------------------------------------------------------------------------------------


@dataclass
class Fake(FakeLibrary):
    """One call at a time, as ranks are threads."""

    one_at_a_time: Any = field(default_factory=threading.RLock)

    def do(self, name: str, arguments: Sequence[Any]) -> int:
        with self.one_at_a_time:
            return super().do(name, arguments)


@dataclass(frozen=True)
class _Interpreted:
    """A kernel that was not compiled."""

    kernel: plan.Kernel
    arch: int
    facts: LaunchFacts
    aligned: bool = False
    code: bytes = b""

    def stage(self, name: str) -> str:
        return name


@contextmanager
def on_a_fake_gpu() -> Generator[Fake]:
    """A GPU whose kernels run in Triton's interpreter, on the memory of this process; TRITON_INTERPRET=1 must be set before Triton is imported."""
    from tests.backends.cuda import machine

    library = Fake()
    started = api.started(library)

    def interpreted(kernels: Sequence[plan.Kernel], arch: int) -> list[list[Any]]:
        made: list[list[Any]] = []
        for kernel in kernels:
            symbol = f"{kernel.name}#{len(library.counts)}"
            library.counts[symbol] = len(kernel.parameters)
            library.kernels[symbol] = _runner(kernel, machine)
            made.append([_Interpreted(kernel, arch, LaunchFacts(symbol, 4, 0))])
        return made

    def there(array: np.ndarray) -> DeviceTensor:
        dtype = dtype_of_numpy(array.dtype)
        assert dtype is not None and array.flags.c_contiguous
        return DeviceTensor(array.ctypes.data, array.shape, dtype, "cuda:0")

    with (
        mock.patch.object(api, "driver", return_value=started),
        mock.patch.object(devices, "_devices", {}),
        mock.patch.object(assemble, "compile_all", interpreted),
        moved(there, lambda array, found: None),
    ):
        yield library


def _runner(kernel: plan.Kernel, machine: Any) -> Callable[[Launched], None]:
    function = machine.load(kernel)

    def run(launched: Launched) -> None:
        function[launched.grid](*(machine.argument(_number(bits, row.type), row.type) for bits, row in zip(launched.slots, kernel.parameters, strict=True)))

    return run


def _number(bits: int, type: str) -> int | float:
    """What a slot holds of a parameter."""
    if type.startswith("*"):
        return bits
    form = launcher._FORMATS[type]
    return struct.unpack_from(f"<{form}", struct.pack("<Q", bits))[0]
