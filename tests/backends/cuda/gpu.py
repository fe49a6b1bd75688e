"""Runs a CUDA plan on the GPU of this machine through torch and Triton's own launcher: what the run time is compared with."""

from __future__ import annotations

import linecache
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tests.backends.cuda.walker import NONE, Walker
from tilejit.backends.cuda import plan
from tilejit.runtime.cuda import printing

_TYPES = {
    "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "u16": torch.uint16, "u32": torch.uint32,
    "u64": torch.uint64, "fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64,
}  # fmt: skip


class Pointer:
    """An address that Triton takes for a tensor."""

    def __init__(self, address: int, type: str) -> None:
        self.address, self.dtype = address, _TYPES[type]

    def data_ptr(self) -> int:
        return self.address


class Gpu(Walker):
    """A CUDA device; arrays are copied there and back."""

    def __init__(self, program: plan.Program) -> None:
        super().__init__(program)
        self.compiled: dict[int, Any] = {}
        self.errors = torch.full((program.error_words,), NONE, dtype=torch.int64, device="cuda")
        self.kept: list[torch.Tensor] = []

    def run(self, entry: str, arguments: Sequence[Any]) -> None:
        """Run an entry on NumPy arrays, which are written in place."""
        self.errors.fill_(NONE)
        self.kept.clear()
        there = [_upload(item) if isinstance(item, np.ndarray) else None for item in arguments]
        self.start(entry, arguments, [0 if item is None else item.data_ptr() for item in there])
        torch.cuda.synchronize()
        for item, copy in zip(arguments, there, strict=True):
            if copy is not None and item.size:
                item.reshape(-1).view(np.uint8)[:] = copy.cpu().numpy()[: item.nbytes]
        self.failed(self.errors.tolist())

    def allocate(self, size: int) -> int:
        self.kept.append(torch.full((size,), 0xA5, dtype=torch.uint8, device="cuda"))
        return self.kept[-1].data_ptr()

    def read(self, address: int, dtype: np.dtype[Any]) -> Any:
        torch.cuda.synchronize()
        cell = torch.empty(dtype.itemsize, dtype=torch.uint8)
        _copy(cell, address)
        return cell.numpy().view(dtype)[0]

    def launch(self, kernel: int, grid: tuple[int, ...], given: Sequence[Any]) -> None:
        facts, rest, log = self.program.kernels[kernel], iter(given), None
        arguments: list[Any] = []
        for parameter in facts.parameters:
            if parameter.kind == "scratch":
                arguments.append(Pointer(self.allocate(max(1, facts.scratch_bytes) * math.prod(grid)), "i8"))
            elif parameter.kind == "error":
                arguments.append(self.errors)
            elif parameter.kind == "barrier":
                words = max(4, facts.meeting_bytes * math.prod(grid)) // np.dtype(np.int32).itemsize
                arguments.append(torch.zeros(words, dtype=torch.int32, device="cuda").view(torch.int32 if parameter.type == "*i32" else torch.int64))
            elif parameter.kind == "log":
                log = torch.zeros(printing.HEADER + printing.PLACES, dtype=torch.int64, device="cuda")
                arguments.append(log)
            else:
                value = next(rest)
                arguments.append(
                    Pointer(int(value), parameter.type[1:]) if parameter.kind == "pointer" else float(value) if parameter.type[0] == "f" else int(value)
                )
        if kernel not in self.compiled:
            self.compiled[kernel] = load(facts)
        if facts.gang > 1 or facts.walkers:  # one gang surely runs at once
            grid = (max(facts.gang, facts.walkers), 1, 1)
        options = {"num_warps": facts.num_warps, "num_stages": facts.num_stages, "launch_cooperative_grid": facts.gang > 1}
        self.compiled[kernel][grid](*arguments, **options, **facts.options)
        if log is not None:
            said = log.cpu().numpy()
            printing.show(said[printing.HEADER :][: said[printing.NEXT]], int(said[printing.LOST]), self.program.failures)


def _copy(cell: torch.Tensor, address: int) -> None:
    import ctypes

    ctypes.CDLL("libcuda.so.1").cuMemcpyDtoH_v2(ctypes.c_void_p(cell.data_ptr()), ctypes.c_uint64(address), ctypes.c_size_t(cell.numel()))


def _upload(array: np.ndarray[Any, Any]) -> torch.Tensor:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return torch.from_numpy(flat.copy() if flat.size else np.zeros(1, np.uint8)).cuda()


def load(kernel: plan.Kernel) -> Any:
    """The function of a kernel's text."""
    name = f"<{kernel.name}-{abs(hash(kernel.text))}>"
    space: dict[str, Any] = {"__name__": kernel.name}
    scalars = [parameter.name for parameter in kernel.parameters if parameter.kind == "scalar"]
    text = kernel.text.replace(f"@triton.jit\ndef {kernel.name}(", f"@triton.jit(do_not_specialize={scalars})\ndef {kernel.name}(")
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), space)
    return space[kernel.name]
