"""Runs small LLVM modules in this process, so that pieces of the CPU backend can be tested on arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt

from tilejit.backends.cpu.lanes.registers import load_lanes, store_lanes
from tilejit.backends.cpu.llvm.compile import compile_llvm
from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.llvm.text import Emitter, Module, Value
from tilejit.dtypes import DType

Array = npt.NDArray[Any]


class Native:
    """A compiled module, loaded for as long as this object lives."""

    def __init__(self, text: str) -> None:
        self.compiled = compile_llvm(text)
        here = host()
        # With long addresses: LLVM may place sections apart, and scratch memory of threads, gigabytes of address space, may lie between them.
        machine = llvm.Target.from_triple(here.triple).create_target_machine(cpu=here.cpu, features=here.features, opt=2, reloc="static", codemodel="large")
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(self.compiled.optimised), machine)
        self._engine.finalize_object()

    def function(self, name: str, *types: Any) -> Callable[..., Any]:
        call = ctypes.CFUNCTYPE(None, *types)(self._engine.get_function_address(name))
        call.owner = self  # type: ignore[attr-defined]
        return call


LaneBody = Callable[[Emitter, list[Value], int], Value]


def lane_kernel(sources: Sequence[DType], target: DType, body: LaneBody, width: int = 16, precise: bool = False) -> Callable[..., Array]:
    """A function on equally long arrays that applies `body` to `width` lanes at a time and to single elements at the end."""
    module = Module(precise=precise)
    pointers = [Value(f"%p{i}", "ptr") for i in range(len(sources) + 1)]
    count = Value("%n", "i64")
    e = Emitter(module, "kernel", "void", [*pointers, count])
    whole = e.inst("i64", f"and i64 %n, {-width}")
    for lower, upper, lanes in ((0, whole, width), (whole, count, 1)):
        with e.loop(lower, upper, lanes) as loop:
            loaded = [load_lanes(e, d, e.offset(p, loop.iv, d.llvm), lanes) for d, p in zip(sources, pointers[1:], strict=True)]
            store_lanes(e, target, e.offset(pointers[0], loop.iv, target.llvm), body(e, loaded, lanes), lanes)
    e.void("ret void")
    e.finish()
    call = Native(module.text()).function("kernel", *[ctypes.c_void_p] * len(pointers), ctypes.c_int64)

    def run(*arrays: Array) -> Array:
        ready = [np.ascontiguousarray(a, d.numpy) for a, d in zip(arrays, sources, strict=True)]
        out = np.empty(ready[0].shape, target.numpy)
        call(out.ctypes.data, *[a.ctypes.data for a in ready], out.size)
        return out

    return run
