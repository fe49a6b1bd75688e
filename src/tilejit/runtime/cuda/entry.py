"""A compiled CUDA program that can be called: per device its modules, its launchers and the functions that launch them."""

from __future__ import annotations

import atexit
import ctypes
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NoReturn, cast

from tilejit.dtypes import DTYPES, FP32, DType
from tilejit.errors import ArgumentError, ArtifactError, InternalError, TilejitError, TilejitWarning
from tilejit.runtime.arrays import ArrayView, view_of
from tilejit.runtime.artifact.sections import Artifact
from tilejit.runtime.call.dispatch_tensors import torch_calls
from tilejit.runtime.call.failures import Failure, raise_failure
from tilejit.runtime.call.native import NativeStart, Placed
from tilejit.runtime.call.signature import Bound, ParamInfo
from tilejit.runtime.cuda import devices, listed
from tilejit.runtime.cuda.devices import Device
from tilejit.runtime.cuda.launch_abi import CUDA_DEVICE, FAILED, HEAR, LAUNCH
from tilejit.runtime.cuda.launcher import Launch, Launcher, LoadedCubin
from tilejit.runtime.cuda.memory import memory_for
from tilejit.runtime.cuda.native import Calls, LaunchTable, numbers_of
from tilejit.runtime.cuda.printing import LaunchLog
from tilejit.runtime.cuda.program import CudaProgram, architecture_name, read_program, runs_on
from tilejit.runtime.cuda.scalars import number_from, rounded, scalar_op, single
from tilejit.runtime.cuda.streams import seat, stream_of
from tilejit.runtime.cuda.words import CLEAR, FailureWords
from tilejit.runtime.locks import new_lock
from tilejit.runtime.targets import HOST

if TYPE_CHECKING:
    from tilejit.runtime.cuda.graph import CapturedCall

HostFunction = Callable[..., None]
"""(stream, memory, inputs …): launches everything that a call does."""


class LoadedProgram:
    """A program, ready on every device that it was called on so far."""

    def __init__(self, name: str, programs: Sequence[CudaProgram], failures: Sequence[Failure], code: Callable[[str], bytes]) -> None:
        self.name, self.failures = name, tuple(failures)
        self._programs = tuple(programs)
        self._code = code
        self._devices: dict[tuple[int, int], DeviceProgram] = {}
        """By device, and the stream of the rank whose kernels it launches."""
        self._lock = new_lock()
        _loaded.add(self)

    def on(self, index: int) -> DeviceProgram:
        """The program on one device, loaded there now if it was not."""
        key = index, seat()
        found = self._devices.get(key)
        if found is None:
            with self._lock:
                found = self._devices.get(key) or self._devices.setdefault(key, self._loaded(devices.device(index)))
        return found

    def _loaded(self, device: Device) -> DeviceProgram:
        fitting = [program for program in self._programs if runs_on(program.arch, device.capability)]
        if not fitting:
            have = ", ".join(architecture_name(program.arch) for program in self._programs)
            what = f"{self.name} was compiled for {have}, {device.name} is {architecture_name(device.capability)}"
            raise ArtifactError(what, help="compile it for this GPU")
        return DeviceProgram(max(fitting, key=lambda program: program.arch), self.failures, device, self._code)

    def check(self) -> None:
        """Raise what kernels of this program reported, on any device."""
        for loaded in list(self._devices.values()):
            loaded.words.check()

    def unreported(self) -> list[str]:
        """What kernels reported and nobody raised."""
        found: list[str] = []
        for loaded in self._devices.values():
            if loaded.words.pending():
                try:
                    loaded.words.raise_report()
                except TilejitError as error:
                    found.append(error.message)
        return found

    def forget(self) -> None:
        """In the child of a fork nothing of it is there."""
        self._devices = {}


_loaded: weakref.WeakSet[LoadedProgram] = weakref.WeakSet()


class DeviceProgram:
    """A program on one device."""

    def __init__(self, program: CudaProgram, failures: Sequence[Failure], device: Device, code: Callable[[str], bytes]) -> None:
        self.program, self.failures, self.device = program, tuple(failures), device
        self.words = FailureWords(device, failures, any(row.kind == "error" for kernel in program.kernels for row in kernel.parameters))
        self.cubins = [[LoadedCubin(device, row, partial(code, row.file)) for row in kernel.cubins] for kernel in program.kernels]
        log = LaunchLog(device, self.failures)
        self.kernels = [Launcher(device, kernel, loaded, self.words.address, log) for kernel, loaded in zip(program.kernels, self.cubins, strict=True)]
        self._functions: dict[str, HostFunction] = {}
        self._listed: set[str] = set()

    def resident(self, kernel: int) -> int:
        """How many programs share the blocks of a kernel, whichever variant is taken."""
        return min(cubin.sharing(self.program.kernels[kernel]) for cubin in self.cubins[kernel])

    def is_first(self, name: str) -> bool:
        """Whether an entry is called for the first time, and its list of launches is all it does; from now on its text is worth compiling."""
        first = name not in self._functions and name not in self._listed and listed.is_plain(self.program.entries[name])
        self._listed.add(name)
        return first

    def function(self, name: str) -> HostFunction:
        """The function of an entry: its text, with the launchers of this device."""
        found = self._functions.get(name)
        if found is None:
            found = self._functions[name] = self.function_with(name, self.kernels)
        return found

    def function_with(self, name: str, launchers: Sequence[Launch]) -> HostFunction:
        """The same, with other launchers."""
        names: dict[str, object] = {f"launch_{at}": kernel for at, kernel in enumerate(launchers)}
        names |= {"words": self.words.words, "CLEAR": CLEAR, "failed": self.words.check, "read": self.read, "fail": self.fail, "scalar_op": scalar_op}
        if seat():
            from tilejit.runtime.cuda.ranks import OnDevice

            names["ask"] = OnDevice(self)
        # Written by the compiler (backends/cuda/control_plane/text.py) and kept in the artifact; like the machine code there, it is trusted.
        exec(compile(self.program.entries[name].text, f"<tilejit host {name}>", "exec"), names)
        return cast("HostFunction", names["call"])

    def read(self, stream: int, address: int, dtype: str) -> int | float | bool:
        """One element of device memory, after everything before it on the stream."""
        row, driver = DTYPES[dtype], self.device.driver
        if driver.number_after("cuStreamIsCapturing", stream):
            raise ArgumentError(
                "a program that looks at data to decide what to launch cannot be captured into a graph",
                help="call it without a graph, or take the decision inside a kernel",
            )
        content = (ctypes.c_ubyte * 8)()
        driver("cuMemcpyDtoHAsync_v2", ctypes.addressof(content), address, row.get_byte(), stream)
        self.settle(stream)
        return number_from(bytes(content), dtype)

    def settle(self, stream: int) -> None:
        """Wait for everything that was launched on a stream, and raise what one of the kernels reported."""
        self.device.driver("cuStreamSynchronize", stream)
        if self.words.pending():
            self.words.raise_report()

    def fail(self, row: int, *values: int) -> NoReturn:
        """Raise a failure that the host found."""
        raise_failure(self.failures[row], values, self.failures)


class CudaEntry(Placed):
    """Runs one entry of a program on checked arguments."""

    def __init__(self, program: LoadedProgram, name: str, params: Sequence[ParamInfo]) -> None:
        self.program, self.name, self.params = program, name, tuple(params)

    def run(self, arguments: Sequence[Bound], num_threads: int | None = None) -> None:
        """Launch everything on the device where the tensors are, on the caller's stream; returns before it is done."""
        first = self.first_array(arguments)
        loaded = self.program.on(device_index(first.device))
        self.run_on(loaded, stream_of(first), first.framework, self.inputs(arguments, loaded))

    def launch(self, first: object, relocate: Callable[[TilejitError], None], noted: object) -> CudaLaunch | None:
        """How warm calls with a first tensor like this one run; None where only the full checks know."""
        view = view_of(first)
        if view is None or view.framework != "torch" or view.device == HOST:
            return None
        return CudaLaunch(self, self.program.on(device_index(view.device)), relocate, noted, f"cuda:{device_index(view.device)}")

    def device_times(self, arguments: Sequence[Bound], rounds: int, warmup: int) -> list[float]:
        """Microseconds that the GPU takes for one run after another, between events."""
        first = self.first_array(arguments)
        loaded, stream = self.program.on(device_index(first.device)), stream_of(first)
        driver, found, took = loaded.device.driver, [0.0] * rounds, ctypes.c_float()
        with loaded.device.active():
            start, end = (driver.word("cuEventCreate", 0) for _ in range(2))
            try:
                for number in range(-warmup, rounds):
                    driver("cuEventRecord", start, stream)
                    self.run(arguments)
                    driver("cuEventRecord", end, stream)
                    driver("cuEventSynchronize", end)
                    driver("cuEventElapsedTime", ctypes.byref(took), start, end)
                    if number >= 0:
                        found[number] = took.value * 1e3
            finally:
                driver("cuEventDestroy_v2", start)
                driver("cuEventDestroy_v2", end)
        self.check()
        return found

    def region_times(self, arguments: Sequence[Bound], functions: Sequence[str], rounds: int) -> dict[str, tuple[float, int]]:
        """Seconds and launches in one call of each kernel, between events around it."""
        first = self.first_array(arguments)
        loaded, stream = self.program.on(device_index(first.device)), stream_of(first)
        driver, launched, took = loaded.device.driver, list[tuple[str, int, int]](), ctypes.c_float()

        def watched(kernel: str, launch: Launch) -> Launch:
            def run(on: int, *rest: object) -> None:
                start, end = (driver.word("cuEventCreate", 0) for _ in range(2))
                driver("cuEventRecord", start, on)
                launch(on, *rest)
                driver("cuEventRecord", end, on)
                launched.append((kernel, start, end))

            return run

        call = loaded.function_with(self.name, [watched(row.name, launch) for row, launch in zip(loaded.program.kernels, loaded.kernels, strict=True)])
        spent: dict[str, tuple[float, int]] = {}
        for number in range(-1, rounds):
            self.run_on(loaded, stream, first.framework, self.inputs(arguments, loaded), call)
            with loaded.device.active():
                driver("cuStreamSynchronize", stream)
                for kernel, start, end in launched:
                    driver("cuEventElapsedTime", ctypes.byref(took), start, end)
                    before, runs = spent.get(kernel, (0.0, 0))
                    if number >= 0:
                        spent[kernel] = before + took.value * 1e-3 / rounds, runs + 1
                    for event in (start, end):
                        driver("cuEventDestroy_v2", event)
            launched.clear()
        self.check()
        return {kernel: (seconds, runs // rounds) for kernel, (seconds, runs) in spent.items()}

    def natively(self, first: object, symbol: Callable[[str], int], num_threads: int | None = None) -> NativeStart | None:
        """By the launch list, for torch tensors, where that is all a call does."""
        view, known = view_of(first), torch_calls()
        if view is None or view.framework != "torch" or known is None:
            return None
        loaded = self.program.on(device_index(view.device))
        table = self.table(loaded, Calls(*known, symbol(HEAR)))
        if table is None:
            return None

        def failed(status: int, values: Sequence[int]) -> NoReturn:
            raise loaded.device.driver.error(status - FAILED, f"a launch of {self.name}")

        return NativeStart(symbol(LAUNCH), failed, table, table=table.address, device=CUDA_DEVICE | loaded.device.index << 32)

    def table(self, loaded: DeviceProgram, calls: Calls) -> LaunchTable | None:
        """What native code needs to launch this entry; None where only the host text says what a call does."""
        row = loaded.program.entries[self.name]
        found = numbers_of(loaded.program, row, self.params, self.places, loaded.words.address, loaded.resident)
        if found is None or row.launches is None:
            return None
        numbers, size = found
        kernels = [launch.kernel for launch in row.launches]
        launches = [(loaded.program.kernels[at], loaded.cubins[at], each) for at, each in zip(kernels, numbers, strict=True)]
        return LaunchTable(loaded.device, loaded.words, launches, size, calls)

    def capture(self, arguments: Sequence[Bound], new: tuple[object, ...], announce: Callable[[], None]) -> CapturedCall:
        """The call as a graph; `announce` is called before each launch of it."""
        from tilejit.runtime.cuda.graph import CapturedCall

        return CapturedCall(self, arguments, new, announce)

    def first_array(self, arguments: Sequence[Bound]) -> ArrayView:
        """The array that decides where a call runs."""
        for argument in arguments:
            if isinstance(argument, ArrayView):
                return argument
        raise ArgumentError(f"{self.name} cannot tell on which GPU to run: the call has no tensor", help="pass a tensor that is on the GPU")

    def run_on(
        self, loaded: DeviceProgram, stream: int, framework: str, inputs: Sequence[int | float | bool], function: HostFunction | None = None
    ) -> None:
        """Launch everything on one device and stream."""
        row = loaded.program.entries[self.name]
        memory = memory_for(loaded.device, stream, framework) if row.memory else None
        with loaded.device.active():
            if function is None and loaded.is_first(self.name):
                loaded.words.check()
                listed.run(row, loaded.kernels, stream, inputs)
                return
            try:
                (function or loaded.function(self.name))(stream, memory, *inputs)
            finally:
                if memory is not None:
                    memory.close()

    def inputs(self, arguments: Sequence[Bound], loaded: DeviceProgram) -> list[int | float | bool]:
        """The facts about the arguments that the host text takes."""
        return [self._fact(arguments[at], at, fact, axis) for at, fact, axis in loaded.program.entries[self.name].inputs]

    def _fact(self, argument: Bound, at: int, fact: str, axis: int) -> int | float | bool:
        if not isinstance(argument, ArrayView):
            return rounded(argument, self.params[at].dtype)
        match fact:
            case "address":
                return argument.address
            case "extent":
                return argument.shape[axis]
            case "stride":
                return argument.strides[axis]
            case _:
                raise InternalError(f"the entry {self.name} asks for the {fact} of a tensor")

    def check(self) -> None:
        """Raise what a kernel reported since the last call."""
        self.program.check()


@dataclass(frozen=True, slots=True)
class CudaLaunch:
    """A warm call on one device: its host function, on torch's current stream."""

    entry: CudaEntry
    loaded: DeviceProgram
    relocate: Callable[[TilejitError], None]
    noted: object
    device: str

    @property
    def slots(self) -> int:
        return self.entry.slots

    def number(self, value: str, dtype: DType, names: dict[str, object]) -> str:
        """A scalar argument as the host function takes it."""
        if not dtype.is_float:
            return value
        names |= {"single": single, "rounded": rounded, f"d{value}": dtype}
        return f"single({value})" if dtype is FP32 else f"rounded({value}, d{value})"

    def lines(self, block: Sequence[str], names: dict[str, object]) -> list[str]:
        """The expressions of the argument block, as far as the host function takes them."""
        from tilejit.runtime import torch

        row, index = self.loaded.program.entries[self.entry.name], self.loaded.device.index
        function = self.loaded.function(self.entry.name)
        names |= {"run": function, "current_stream": torch.current_stream, "active": self.loaded.device.active}
        names |= {"memory_for": memory_for, "device": self.loaded.device}
        inputs = [self.input(block, at, fact, axis) for at, fact, axis in row.inputs]
        lines = [f"stream = current_stream({index})"]
        memory = "memory_for(device, stream, 'torch')" if row.memory else "None"
        call = f"run({', '.join(['stream', memory, *inputs])})"
        return [*lines, call] if devices.count() == 1 else [*lines, "with active():", f" {call}"]

    def input(self, block: Sequence[str], at: int, fact: str, axis: int) -> str:
        rank = len(self.entry.params[at].shape or ())
        return block[self.entry.places[at] + {"address": 0, "value": 0, "extent": 1 + axis, "stride": 1 + rank + axis}[fact]]


def device_index(device: str) -> int:
    """The number in `cuda:1`; plain `cuda` is the first."""
    return int(device.partition(":")[2] or 0)


def synchronise(device: int | None = None) -> None:
    """Wait for the kernels on one device, or on all, and raise what one of them reported."""
    for found in devices.used():
        if device is None or found.index == device:
            found.synchronise()
    for program in list(_loaded):
        program.check()


def runners(artifact: Artifact) -> dict[str, CudaEntry]:
    """What runs each entry of an artifact; nothing is loaded onto a device before the first call."""
    programs = [read_program(fields) for fields in artifact.facts["programs"]]
    loaded = LoadedProgram(artifact.name, programs, artifact.failures, artifact.section)
    return {name: CudaEntry(loaded, name, info.signature.code_params) for name, info in artifact.entries.items()}


def _tell_at_exit() -> None:
    """A failure that no later call reported is told when the process ends: a result may be wrong without it."""
    for program in list(_loaded):
        for message in program.unreported():
            warnings.warn(f"a kernel on the GPU failed, and nothing was called since that could have raised it: {message}", TilejitWarning, stacklevel=1)


atexit.register(_tell_at_exit)


def _in_child() -> None:
    for program in list(_loaded):
        program.forget()


devices.when_forked(_in_child)
