"""Launches on a driver that only keeps a record: what is packed, which variant runs, what happens when something fails."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.runtime.cuda.fake import FakeLibrary, Launched
from tilejit.dtypes import FP32
from tilejit.errors import ArgumentError, ArtifactError, DeviceError, OutOfBoundsError, PlatformError, ResourceError, TilejitWarning
from tilejit.runtime.arrays import DeviceTensor, view_of
from tilejit.runtime.call.failures import Failure
from tilejit.runtime.call.signature import Bound, ParamInfo
from tilejit.runtime.cuda import devices, entry
from tilejit.runtime.cuda.entry import CudaEntry, LoadedProgram, synchronise
from tilejit.runtime.cuda.program import CubinRow, CudaProgram, EntryRow, KernelRow, LaunchFacts, ParameterRow

POINTERS = tuple(ParameterRow(name, "pointer", "*fp32", divisible=True) for name in ("x", "out"))
GENERAL, ALIGNED = CubinRow("general", LaunchFacts("general", 4, 0)), CubinRow("aligned", LaunchFacts("aligned", 8, 60_000), aligned=True)
SCALE = KernelRow("scale", (*POINTERS, ParameterRow("n", "scalar", "i32"), ParameterRow("by", "scalar", "fp32")), 0, (GENERAL, ALIGNED))
TEXT = """def call(stream, memory, x, n, out, by):
    if words[0] != CLEAR: failed()
    launch_0(stream, memory, -(-n // 4), 1, 1, x, out, n, by)
"""
INPUTS = ((0, "address", 0), (0, "extent", 0), (1, "address", 0), (2, "value", 0))
PARAMS = (ParamInfo("x", "In", FP32, ("n",)), ParamInfo("out", "Out", FP32, ("n",)), ParamInfo("by", "In", FP32))
FAILURES = (Failure("bounds", "place {0} is outside"), Failure("assert", "not so: {0}"))


def program(kernel: KernelRow = SCALE, text: str = TEXT, memory: bool = False, inputs: Sequence[tuple[int, str, int]] = INPUTS) -> CudaEntry:
    loaded = LoadedProgram("scale", [CudaProgram(90, (kernel,), {"scale": EntryRow(tuple(inputs), text, memory)})], FAILURES, lambda file: file.encode())
    return CudaEntry(loaded, "scale", PARAMS)


def arguments(count: int = 10, offset: int = 0) -> tuple[list[Bound], np.ndarray, np.ndarray]:
    """Arrays on the fake GPU, whose memory is ours; `offset` elements past a multiple of 16 bytes."""
    whole = [np.zeros(count + 8, np.float32) for _ in range(2)]
    x, out = (array[(-array.ctypes.data // 4) % 4 + offset :][:count] for array in whole)
    x[:] = np.arange(count)
    views = [view_of(DeviceTensor(array.ctypes.data, array.shape, FP32, "cuda:0")) for array in (x, out)]
    assert views[0] is not None and views[1] is not None
    return [views[0], views[1], 2.5], x, out


def scale(launched: Launched) -> None:
    count = launched.slots[2]
    by = struct.unpack("<f", struct.pack("<I", launched.slots[3]))[0]
    x, out = launched.floats(0, count), launched.floats(1, count)
    for at in range(count):
        out[at] = x[at] * by


def test_a_launch_hands_over_grid_threads_stream_and_values(gpu: FakeLibrary) -> None:
    gpu.parameters, gpu.kernels["aligned"] = 6, scale
    given, x, out = arguments()
    program().run(given)
    (launched,) = gpu.launches
    assert (launched.grid, launched.threads, launched.shared, launched.stream, launched.attributes) == ((3, 1, 1), 256, 60_000, 0, {})
    assert launched.slots == (x.ctypes.data, out.ctypes.data, 10, 0x40200000, 0, 0)
    np.testing.assert_array_equal(out, x * 2.5)


def test_an_address_that_is_not_aligned_takes_the_general_variant(gpu: FakeLibrary) -> None:
    gpu.parameters, gpu.kernels["general"] = 6, scale
    given, x, out = arguments(offset=1)
    program().run(given)
    assert [(launched.symbol, launched.threads) for launched in gpu.launches] == [("general", 128)]
    np.testing.assert_array_equal(out, x * 2.5)


def test_modules_are_loaded_when_needed_and_once_and_may_use_more_than_48_kib_of_shared_memory(gpu: FakeLibrary) -> None:
    entry = program()
    for offset in (0, 0, 1, 1):
        entry.run(arguments(offset=offset)[0])
    assert gpu.modules == [b"aligned", b"general"]
    assert gpu.attributes_set == {0x3001: 60_000}


def test_an_empty_grid_launches_nothing(gpu: FakeLibrary) -> None:
    program().run(arguments(count=0)[0])
    assert gpu.launches == []


def test_a_thread_without_a_context_gets_one(gpu: FakeLibrary) -> None:
    entry = program()
    entry.run(arguments()[0])
    gpu.statuses["cuLaunchKernelEx"] = [201]
    thread = threading.Thread(target=entry.run, args=(arguments()[0],))
    thread.start()
    thread.join()
    assert len(gpu.launches) == 2


def test_the_context_of_another_device_is_put_back(gpu: FakeLibrary) -> None:
    gpu.current = 0x1001
    program().run(arguments()[0])
    assert gpu.current == 0x1001 and len(gpu.launches) == 1


def test_scratch_memory_is_taken_and_given_back(gpu: FakeLibrary) -> None:
    row = replace(GENERAL, facts=replace(GENERAL.facts, scratch=128))
    kernel = KernelRow("scale", (*SCALE.parameters, ParameterRow("s", "scratch", "*i8"), ParameterRow("b", "barrier", "*i32")), 256, (row,))
    gpu.parameters = 8
    seen: list[tuple[int, int]] = []

    def look(launched: Launched) -> None:
        assert {launched.slots[4], launched.slots[5], launched.slots[6]} <= set(gpu.taken)
        seen.append((len(gpu.taken[launched.slots[4]]) - 256, ctypes.c_int32.from_address(launched.slots[5]).value))

    gpu.kernels["general"] = look
    program(kernel, memory=True).run(arguments()[0])
    assert seen == [(256 * 3, 0)]
    assert gpu.calls.count("cuMemAllocAsync") == gpu.calls.count("cuMemFreeAsync") == 3


def test_cooperative_launches_and_clusters_say_so(gpu: FakeLibrary) -> None:
    facts = replace(GENERAL.facts, cooperative=True, clusters=2)
    program(replace(SCALE, cubins=(replace(GENERAL, facts=facts),))).run(arguments()[0])
    assert gpu.launches[0].grid == (6, 1, 1)
    assert gpu.launches[0].attributes[2][0] == 1 and gpu.launches[0].attributes[4] == (2, 1, 1)


def test_only_as_many_whole_gangs_are_launched_as_run_at_once_and_their_words_are_zero(gpu: FakeLibrary) -> None:
    facts = replace(GENERAL.facts, cooperative=True)
    kernel = KernelRow("scale", (*SCALE.parameters, ParameterRow("b", "barrier", "*i64")), 0, (CubinRow("general", facts),), gang=3, meeting_bytes=16)
    gpu.parameters = 7
    seen: list[tuple[int, bytes]] = []
    gpu.kernels["general"] = lambda launched: seen.append((launched.grid[0], ctypes.string_at(launched.slots[4], launched.grid[0] * 16)))
    for count in (400, 12):  # 100 and 3 programs; 8 run at once
        program(kernel, memory=True).run(arguments(count)[0])
    assert seen == [(6, bytes(6 * 16)), (3, bytes(3 * 16))]


def test_more_blocks_than_fit_at_once_are_refused_with_the_number_that_does(gpu: FakeLibrary) -> None:
    gpu.statuses["cuLaunchKernelEx"] = [720]
    with pytest.raises(ResourceError, match="only 8 of them run at once on Fake GPU"):
        program().run(arguments()[0])


# failures -------------------------------------------------------------------------------------------------------------------


def report(launched: Launched) -> None:
    words = (ctypes.c_int64 * 9).from_address(launched.slots[4])
    words[0] = min(words[0], (7 << 40) | (3 << 20) | 1)
    words[5] = 41


def failing(gpu: FakeLibrary) -> CudaEntry:
    gpu.parameters, gpu.kernels["general"] = 7, report
    return program(KernelRow("scale", (*SCALE.parameters, ParameterRow("e", "error", "*i64")), 0, (GENERAL,)))


def test_a_failure_is_raised_by_the_next_call_and_then_forgotten(gpu: FakeLibrary) -> None:
    entry = failing(gpu)
    entry.run(arguments()[0])
    gpu.kernels.clear()
    with pytest.raises(AssertionError, match=r"(?s)not so: 41.*kernels on the GPU run on their own"):
        entry.run(arguments()[0])
    assert len(gpu.launches) == 1
    entry.run(arguments()[0])
    assert len(gpu.launches) == 2


def test_a_failure_is_raised_by_synchronise(gpu: FakeLibrary) -> None:
    entry = failing(gpu)
    entry.run(arguments()[0])
    with pytest.raises(AssertionError, match="not so: 41"):
        synchronise()
    synchronise()


def test_a_failure_that_nothing_raised_is_told_when_the_process_ends(gpu: FakeLibrary) -> None:
    made = failing(gpu)
    made.run(arguments()[0])
    with pytest.warns(TilejitWarning, match="a kernel on the GPU failed, and nothing was called since that could have raised it: not so: 41"):
        entry._tell_at_exit()
    made.run(arguments()[0])
    with pytest.raises(AssertionError):
        synchronise()


def test_times_on_the_device_come_from_events(gpu: FakeLibrary) -> None:
    assert program().device_times(arguments()[0], rounds=3, warmup=2) == [250.0] * 3
    assert len(gpu.launches) == 5 and gpu.calls.count("cuEventDestroy_v2") == 2


def test_reading_data_waits_and_raises_failures(gpu: FakeLibrary) -> None:
    text = TEXT + "    if read(stream, x + 4, 'FP32') == 1.0: fail(0, n)\n"
    with pytest.raises(OutOfBoundsError, match="place 10 is outside"):
        program(text=text).run(arguments()[0])
    assert gpu.calls.count("cuStreamSynchronize") == 1
    gpu.capturing = True
    gpu.graphs.append([])
    with pytest.raises(ArgumentError, match="cannot be captured into a graph"):
        program(text=text).run(arguments()[0])


def test_a_status_of_the_driver_is_an_error_with_its_name(gpu: FakeLibrary) -> None:
    entry = program()
    gpu.statuses["cuLaunchKernelEx"] = [700]
    with pytest.raises(DeviceError, match=r"the launch of scale: something went wrong \(CUDA_ERROR_700\)"):
        entry.run(arguments()[0])
    gpu.statuses["cuModuleLoadData"] = [2]
    with pytest.raises(ResourceError, match="the GPU has no memory left"):
        program().run(arguments()[0])


# where it can run -----------------------------------------------------------------------------------------------------------


def test_a_gpu_without_code_for_it_is_named(gpu: FakeLibrary) -> None:
    gpu.capability = 86
    with pytest.raises(ArtifactError, match="scale was compiled for sm_90, Fake GPU is sm_86"):
        program().run(arguments()[0])


def test_an_old_gpu_and_one_that_is_not_there_are_refused(gpu: FakeLibrary) -> None:
    gpu.capability = 75
    with pytest.raises(PlatformError, match=r"Fake GPU has compute capability 7.5; 8.0 or newer is needed"):
        devices.device(0)
    with pytest.raises(ArgumentError, match="there is no device cuda:3: this process sees 1 GPU"):
        devices.device(3)


def test_a_child_process_refuses(gpu: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = program()
    entry.run(arguments()[0])
    monkeypatch.setattr(devices, "_forked", False)
    devices._in_child()
    with pytest.raises(DeviceError, match=r"(?s)forked from one that used the GPU.*spawn"):
        entry.run(arguments()[0])
