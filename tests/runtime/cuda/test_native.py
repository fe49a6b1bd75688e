"""Launch lists in native code: the numbers of a launch, the variant, the stream, and everything that is left to Python."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.runtime.cuda.fake import FakeLibrary
from tests.runtime.cuda.test_launch import ALIGNED, FAILURES, GENERAL, PARAMS, TEXT, arguments
from tilejit.backends.cpu.executable import dispatcher_blob
from tilejit.dtypes import FP32, INDEX, INT32
from tilejit.runtime.artifact.blob import Blob
from tilejit.runtime.call import abi
from tilejit.runtime.call.dispatch import Dispatcher, NativeCall
from tilejit.runtime.call.dispatch_abi import SLOW
from tilejit.runtime.call.dispatch_tensors import torch_calls
from tilejit.runtime.call.guards import CallForm, RuntimeGuard, TensorGuard
from tilejit.runtime.call.layout import supported
from tilejit.runtime.call.native_type import NativeCallable
from tilejit.runtime.call.signature import ParamInfo
from tilejit.runtime.cuda.entry import CudaEntry, LoadedProgram
from tilejit.runtime.cuda.launch_abi import FAILED, HEAR, LAUNCH
from tilejit.runtime.cuda.native import Calls
from tilejit.runtime.cuda.program import CudaProgram, EntryRow, KernelRow, LaunchRow, Node, ParameterRow

pytestmark = pytest.mark.skipif(not supported(), reason="needs an interpreter that the native dispatcher knows")
INPUTS = ((0, "address", 0), (0, "extent", 0), (1, "address", 0), (2, "value", 0))
X, N, OUT, BY = (("input", at) for at in range(4))
POINTERS = tuple(ParameterRow(name, "pointer", "*fp32", divisible=True) for name in ("x", "out"))
SCALE = KernelRow(
    "scale", (*POINTERS, ParameterRow("n", "scalar", "i32"), ParameterRow("by", "scalar", "fp32"), ParameterRow("e", "error", "*i64")), 0, (GENERAL, ALIGNED)
)
BLOCKS: Node = ("ceildiv", N, 4)
SCALED = LaunchRow(0, (BLOCKS, 1, 1), (X, OUT, N, BY))


@cache
def code() -> Blob:
    made = dispatcher_blob()
    assert made is not None
    return made


def path() -> Dispatcher:
    return Dispatcher(code(), lambda *args: ("slow", *args), CallForm({f"p{i}": False for i in range(3)}, 3))


STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)


class Streams:
    """A stand-in for torch's function that tells the current stream."""

    def __init__(self) -> None:
        self.now = 0x77
        self.asked: list[tuple[int, int]] = []
        self.function = STREAM(self._tell)
        self.address = ctypes.cast(self.function, ctypes.c_void_p).value or 0

    def _tell(self, kind: int, number: int, out: int) -> int:
        self.asked.append((kind, number))
        ctypes.c_uint64.from_address(out).value = self.now
        return 0


class Allocator:
    """A stand-in for torch's allocator, by DLPack's rules: memory of this process, with an owner that takes it back."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ...]] = []
        self.returned: list[int] = []
        self.made: list[Any] = []
        self.status = 0
        self.function = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(self._allocate)
        self._deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._take_back)
        self.address = ctypes.cast(self.function, ctypes.c_void_p).value or 0

    def _allocate(self, tensor: int, out: int, context: int | None, hear: int | None) -> int:
        data, device, kind, extents, strides, offset = (ctypes.c_int64 * 6).from_address(tensor)
        size = ctypes.c_int64.from_address(extents).value
        self.asked.append((device, kind, size, data, strides, offset))
        if self.status:
            return self.status
        memory = ctypes.create_string_buffer(b"\xa5" * size, size + 16)
        deleter = ctypes.cast(self._deleter, ctypes.c_void_p).value or 0
        managed = (ctypes.c_int64 * 10)(1, 0, deleter, 0, (ctypes.addressof(memory) + 15) & ~15)
        self.made.append((managed, memory))
        ctypes.c_uint64.from_address(out).value = ctypes.addressof(managed)
        return 0

    def _take_back(self, managed: int) -> None:
        self.returned.append(managed)


def entry(launches: Sequence[LaunchRow], kernel: KernelRow = SCALE, params: Sequence[ParamInfo] = PARAMS, size: Node = 0) -> CudaEntry:
    row = EntryRow(INPUTS, TEXT, False, tuple(launches), size)
    return CudaEntry(LoadedProgram("scale", [CudaProgram(90, (kernel,), {"scale": row})], FAILURES, lambda file: file.encode()), "scale", params)


def run(made: CudaEntry, block: Sequence[int], streams: Streams, memory: int = 0) -> int:
    """The native function on an argument block; its status."""
    table = made.table(made.program.on(0), Calls(streams.address, memory, path().address(HEAR)))
    assert table is not None
    context = (ctypes.c_int64 * abi.CONTEXT_SLOTS)()
    context[abi.TABLE] = table.address
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(path().address(LAUNCH))
    return function(struct.pack(f"={len(block)}q", *block), context)


def test_a_launch_list_is_launched_on_the_current_stream(gpu: FakeLibrary) -> None:
    gpu.parameters, streams, made = 7, Streams(), entry([SCALED, SCALED])
    by = struct.unpack("<I", struct.pack("<f", 2.5))[0]
    assert run(made, [0x1000, 10, 1, 0x2000, 10, 1, by], streams) == 0
    first, second = gpu.launches
    assert first == second
    assert (first.symbol, first.grid, first.threads, first.shared, first.stream, first.attributes) == ("aligned", (3, 1, 1), 256, 60_000, 0x77, {})
    assert first.slots == (0x1000, 0x2000, 10, by, made.program.on(0).words.address, 0, 0)
    assert streams.asked == [(2, 0)]


def test_an_address_that_is_not_aligned_takes_the_general_variant(gpu: FakeLibrary) -> None:
    gpu.parameters = 7
    run(entry([SCALED]), [0x1000, 10, 1, 0x2004, 10, 1, 0], Streams())
    assert [(launched.symbol, launched.threads, launched.shared) for launched in gpu.launches] == [("general", 128, 0)]


def test_an_empty_grid_launches_nothing(gpu: FakeLibrary) -> None:
    gpu.parameters = 7
    assert run(entry([SCALED, LaunchRow(0, (1, 1, 1), SCALED.arguments)]), [0x1000, 0, 1, 0x2000, 0, 1, 0], Streams()) == 0
    assert [launched.grid for launched in gpu.launches] == [(1, 1, 1)]


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (("add", N, 7), 17), (("sub", 3, N), -7), (("mul", N, ("sub", N, 2)), 80), (("minimum", N, 3), 3), (("maximum", N, 30), 30),
        (("floordiv", N, 4), 2), (("floordiv", ("sub", 0, N), 4), -3), (("ceildiv", N, 4), 3), (("ceildiv", ("sub", 0, N), 4), -2),
        (("mod", N, 4), 2), (("mod", ("sub", 0, N), 4), 2), (("add", ("mul", N, 2), ("add", ("floordiv", N, 3), ("mod", N, 3))), 24),
    ],
)  # fmt: skip
def test_numbers_are_what_python_says(number: Node, value: int, gpu: FakeLibrary) -> None:
    gpu.parameters = 7
    run(entry([LaunchRow(0, (1, 1, 1), (X, OUT, number, BY))]), [0x1000, 10, 1, 0x2000, 10, 1, 0], Streams())
    assert ctypes.c_int64(gpu.launches[0].slots[2]).value == value


def test_python_looks_at_failures_and_at_threads_without_a_context(gpu: FakeLibrary) -> None:
    gpu.parameters, made = 7, entry([SCALED])
    block = [0x1000, 10, 1, 0x2000, 10, 1, 0]
    made.program.on(0).words.words[0] = 1
    assert run(made, block, Streams()) == SLOW
    made.program.on(0).words.words[0] = (1 << 63) - 1
    for status in (201, 400):
        gpu.statuses["cuLaunchKernelEx"] = [status]
        assert run(made, block, Streams()) == SLOW
    assert gpu.launches == [] and run(made, block, Streams()) == 0
    gpu.statuses["cuLaunchKernelEx"] = [0, 201]
    assert run(entry([SCALED, SCALED]), block, Streams()) == FAILED + 201


def test_a_status_of_the_driver_comes_back(gpu: FakeLibrary) -> None:
    gpu.parameters, gpu.statuses["cuLaunchKernelEx"] = 7, [700]
    assert run(entry([SCALED]), [0x1000, 10, 1, 0x2000, 10, 1, 0], Streams()) == FAILED + 700


def test_what_native_code_cannot_compute_is_left_to_the_host_text(gpu: FakeLibrary) -> None:
    index = (*PARAMS[:2], ParamInfo("by", "In", INDEX))
    narrow = (*PARAMS[:2], ParamInfo("by", "In", INT32))
    whole = KernelRow("scale", (*POINTERS, ParameterRow("n", "scalar", "i64"), ParameterRow("by", "scalar", "i64")), 0, (GENERAL,))

    def known(launch: LaunchRow, kernel: KernelRow = SCALE, params: Sequence[ParamInfo] = PARAMS) -> bool:
        made = entry([launch], kernel, params)
        return made.table(made.program.on(0), Calls(0, 0, 0)) is not None

    assert known(SCALED)
    assert not known(LaunchRow(0, (("floordiv", N, N), 1, 1), SCALED.arguments))
    assert not known(LaunchRow(0, (BY, 1, 1), SCALED.arguments))  # bits of a float are no extent
    assert known(SCALED, whole, index) and not known(SCALED, whole, narrow)  # a narrow slot has lost its sign


def test_memory_of_a_call_is_taken_at_once_and_goes_back_after_the_last_launch(gpu: FakeLibrary) -> None:
    gpu.parameters, memory = 7, Allocator()
    size: Node = ("mul", ("ceildiv", ("mul", N, 4), 256), 256)
    first = LaunchRow(0, (BLOCKS, 1, 1), (X, ("memory", 0), N, BY))
    second = LaunchRow(0, (BLOCKS, 1, 1), (("memory", size), OUT, N, BY), scratch=("memory", 512))
    made, block = entry([first, second], size=("add", size, size)), [0x1000, 100, 1, 0x2000, 100, 1, 0]
    assert run(made, block, Streams(), memory.address) == 0
    base = memory.made[0][0][4]
    assert memory.asked == [(2, 1 | 0x10801 << 32, 1024, 0, 0, 0)]
    assert [launched.slots[:2] for launched in gpu.launches] == [(0x1000, base), (base + 512, 0x2000)]
    assert [launched.slots[5] for launched in gpu.launches] == [0, base + 512]
    assert memory.returned == [ctypes.addressof(memory.made[0][0])]
    gpu.statuses["cuLaunchKernelEx"] = [0, 700]
    assert run(made, block, Streams(), memory.address) == FAILED + 700 and len(memory.returned) == len(memory.made) == 2
    memory.status = -1
    assert run(made, block, Streams(), memory.address) == SLOW and len(memory.returned) == 2 and len(gpu.launches) == 3


def test_gangs_are_cut_to_what_runs_at_once_and_their_words_are_zero(gpu: FakeLibrary) -> None:
    gpu.parameters, memory = 8, Allocator()
    programs: Node = ("minimum", BLOCKS, ("resident", 0))
    size: Node = ("mul", programs, 16)
    kernel = replace(SCALE, parameters=(*SCALE.parameters, ParameterRow("b", "barrier", "*i64")), gang=3, meeting_bytes=16)
    made = entry([LaunchRow(0, (programs, 1, 1), (X, OUT, N, BY, ("memory", 0)), zeroed=(("memory", 0), size))], kernel, size=size)
    seen: list[tuple[int, bytes]] = []
    gpu.kernels["aligned"] = lambda launched: seen.append((launched.grid[0], ctypes.string_at(launched.slots[5], launched.grid[0] * 16)))
    for count in (400, 12):  # 100 and 3 programs; 8 run at once
        assert run(made, [0x1000, count, 1, 0x2000, count, 1, 0], Streams(), memory.address) == 0
    assert seen == [(6, bytes(6 * 16)), (3, bytes(3 * 16))]
    gpu.statuses["cuMemsetD8Async"] = [700]
    assert run(made, [0x1000, 400, 1, 0x2000, 400, 1, 0], Streams(), memory.address) == FAILED + 700
    assert len(seen) == 2, "nothing waits for words that may not be 0"


@pytest.mark.parametrize(("walkers", "grid"), [(1, 3), (2, 7)])
def test_walkers_are_as_many_as_the_processors_of_the_device_keep_busy(walkers: int, grid: int, gpu: FakeLibrary) -> None:
    gpu.parameters = 7  # there are 4 processors, and the number of programs is odd
    made = entry([LaunchRow(0, (("minimum", BLOCKS, ("resident", 0)), 1, 1), SCALED.arguments)], replace(SCALE, walkers=walkers))
    for count in (400, 8):
        assert run(made, [0x1000, count, 1, 0x2000, count, 1, 0], Streams()) == 0
        made.run(arguments(count)[0])  # the first time by the list, then by the text
    assert [launched.grid[0] for launched in gpu.launches] == [grid, grid, 2, 2]


@pytest.mark.torch
def test_torch_allocates_as_dlpack_says() -> None:
    pytest.importorskip("torch")
    found = torch_calls()
    if found is None:
        pytest.skip("this torch has no C exchange")
    extent = ctypes.c_int64(1000)
    wanted = (ctypes.c_int64 * 6)(0, 1, 1 | 0x10801 << 32, ctypes.addressof(extent), 0, 0)
    taken = ctypes.POINTER(ctypes.c_int64)()
    allocate: Any = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(found[1])
    assert allocate(wanted, ctypes.byref(taken), None, path().address(HEAR)) == 0
    ctypes.memset(taken[4], 7, 1000)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(taken[2])(taken)
    wanted[1] = 99  # a device that there is not
    assert allocate(wanted, ctypes.byref(taken), None, path().address(HEAR)) != 0


@pytest.mark.torch
def test_the_dispatcher_launches_for_tensors_that_fit(gpu: FakeLibrary) -> None:
    torch: Any = pytest.importorskip("torch")
    gpu.parameters, streams, made = 7, Streams(), entry([SCALED])
    table = made.table(made.program.on(0), Calls(streams.address, 0, 0))
    assert table is not None
    x, out = torch.arange(12.0), torch.zeros(12)
    fast = path()
    guards = (
        TensorGuard(x, (None,), (0,), 4, False, 0), TensorGuard(out, (None,), (0,), 4, True, 3), RuntimeGuard(FP32, 6),
    )  # fmt: skip
    failed: list[int] = []
    fits = NativeCall(fast.address(LAUNCH), guards, False, 1, 0, False, lambda status, values: failed.append(status), (made, table), table=table.address)
    assert fast.add(fits)
    kernel: Any = NativeCallable()
    fast.serve(kernel)
    assert kernel(x, out, 1.5) is None
    assert gpu.launches[0].slots[:3] == (x.data_ptr(), out.data_ptr(), 12) and gpu.launches[0].grid == (3, 1, 1)
    made.program.on(0).words.words[0] = 1
    assert kernel(x, out, 1.5)[0] == "slow" and len(gpu.launches) == 1
    made.program.on(0).words.words[0] = (1 << 63) - 1
    gpu.statuses["cuLaunchKernelEx"] = [700]
    kernel(x, out, 1.5)
    assert failed == [FAILED + 700]
    assert kernel(np.zeros(12, np.float32), out, 1.5)[0] == "slow"
