"""Launch lists of real programs in native code: the launches that the host text makes, with the same numbers and the same places in memory."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tests.runtime.cuda.fake import FakeLibrary
from tests.runtime.cuda.test_native import Allocator, Streams, path
from tests.suite.test_suite import CASES
from tilejit import ir
from tilejit.backends.base import CompileOptions
from tilejit.backends.cuda.assemble import entry_row
from tilejit.backends.cuda.lower import lower
from tilejit.backends.cuda.plan import Kernel
from tilejit.backends.entries import entry_infos
from tilejit.passes import pipeline
from tilejit.runtime.arrays import view_of
from tilejit.runtime.call import abi
from tilejit.runtime.call.layout import supported
from tilejit.runtime.call.native import pack
from tilejit.runtime.cuda import listed
from tilejit.runtime.cuda.entry import CudaEntry, LoadedProgram
from tilejit.runtime.cuda.launch_abi import HEAR, LAUNCH
from tilejit.runtime.cuda.native import Calls
from tilejit.runtime.cuda.program import CubinRow, CudaProgram, KernelRow, LaunchFacts, ParameterRow

pytestmark = pytest.mark.skipif(not supported(), reason="needs an interpreter that the native dispatcher knows")
ROWS = pl.dynamic("ROWS")


@pl.jit
def in_steps(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Memory of two sizes that only the run knows, and products between."""
    x.bind_dynamic(0, ROWS)
    out.bind_dynamic(0, ROWS)
    y = pl.create_tensor(x.shape, dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.exp(x) + 1.0
    z = pl.create_tensor([x.shape[0], w.shape[1]], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        z[:] = pl.matmul(y, w)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_expand_sub(z, pl.row_max(z))


class Memory:
    """One piece after the other, as native code places them."""

    def __init__(self, base: int) -> None:
        self.base, self.used = base, 0

    def take(self, size: int) -> int:
        self.used += (used := -(-size // 256) * 256)
        return self.base + self.used - used

    keep = take


def test_native_code_launches_what_the_host_text_does(gpu: FakeLibrary) -> None:
    rng = np.random.default_rng(3)
    tensors = [rng.standard_normal(shape).astype(np.float32) for shape in ((37, 24), (24, 50), (37, 50))]
    given: list[tuple[ir.Program, list[Any]]] = [(_parsed(in_steps.specialized_source(*tensors)), tensors)]
    for number in range(5, len(CASES), 31):
        case: Any = CASES[number].values[0]  # type: ignore[attr-defined]
        arguments, _, _ = case._given(case.arguments(case.calls[0]))
        given.append((case.kernel if isinstance(case.kernel, ir.Program) else _parsed(case.kernel.specialized_source(*arguments)), arguments))
    taken = [_compared(gpu, program, arguments) for program, arguments in given]
    assert taken[0] is not None and taken[0] > 37 * 24 * 4 + 37 * 50 * 4
    assert sum(bytes is not None for bytes in taken) > len(taken) // 2


def _parsed(text: str) -> ir.Program:
    found = pl.parse(text)
    assert isinstance(found, ir.Program)
    return found


def _row(at: int, kernel: Kernel) -> KernelRow:
    """A kernel as if it were compiled; every other one wants memory for Triton itself."""
    parameters = tuple(ParameterRow(row.name, row.kind, row.type, row.divisible) for row in kernel.parameters)
    general, aligned = (LaunchFacts(f"k{at}", warps, 0, scratch=100 * (at % 2)) for warps in (4, 8))
    cubins = (CubinRow("general", general), CubinRow("aligned", aligned, aligned=True))
    return KernelRow(kernel.name, parameters, kernel.scratch_bytes, cubins if any(row.divisible for row in kernel.parameters) else cubins[:1])


def _compared(gpu: FakeLibrary, program: ir.Program, arguments: list[Any]) -> int | None:
    """Bytes that both ways took; None: the entry is no launch list."""
    whole = pipeline.run_pipeline(program, pipeline.FUSED)
    plan = lower(whole, CompileOptions())
    kernels = tuple(_row(at, kernel) for at, kernel in enumerate(plan.kernels))
    name, info = next(iter(entry_infos(whole, whole).items()))
    row = entry_row(plan.entries[name], kernels)
    entry = CudaEntry(LoadedProgram(name, [CudaProgram(90, kernels, {name: row})], plan.failures, str.encode), name, info.signature.code_params)
    loaded, memory, streams = entry.program.on(0), Allocator(), Streams()
    table = entry.table(loaded, Calls(streams.address, memory.address, path().address(HEAR)))
    bound = [view_of(value) or value for value in arguments]
    if table is None or len(bound) != len(entry.params):
        return None
    gpu.counts = {kernel.cubins[0].facts.symbol: len(kernel.parameters) + 2 for kernel in kernels}
    context = (ctypes.c_int64 * abi.CONTEXT_SLOTS)()
    context[abi.TABLE] = table.address
    slots = pack(bound, [param.dtype for param in entry.params])
    launch = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(path().address(LAUNCH))
    gpu.launches.clear()
    assert launch(struct.pack(f"={len(slots)}Q", *slots), context) == 0
    native = list(gpu.launches)
    text = Memory(memory.made[0][0][4] if memory.made else 0)
    gpu.launches.clear()
    loaded.function(name)(streams.now, text, *entry.inputs(bound, loaded))
    assert native == gpu.launches, name
    if listed.is_plain(row):
        gpu.launches.clear()
        listed.run(row, loaded.kernels, streams.now, entry.inputs(bound, loaded))
        assert native == gpu.launches, name
    asked = memory.asked[0][2] if memory.asked else 0
    assert asked == text.used and len(memory.returned) == len(memory.made), name
    return asked
