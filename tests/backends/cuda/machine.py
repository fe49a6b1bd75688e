"""Runs a CUDA plan in Triton's interpreter on NumPy arrays. Import it only in a process with TRITON_INTERPRET=1."""

from __future__ import annotations

import ctypes
import linecache
import math
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

os.environ["TRITON_INTERPRET"] = "1"

import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

from tests.backends.cuda.walker import NONE, Walker
from tilejit.backends.cuda import plan
from tilejit.backends.cuda.text.library import DESCRIPTORS
from tilejit.runtime.cuda import printing

Array = np.ndarray[Any, Any]

_TYPES: dict[str, tuple[Any, Any]] = {
    "i1": (tl.int1, np.bool_), "i8": (tl.int8, np.int8), "i16": (tl.int16, np.int16), "i32": (tl.int32, np.int32), "i64": (tl.int64, np.int64),
    "u8": (tl.uint8, np.uint8), "u16": (tl.uint16, np.uint16), "u32": (tl.uint32, np.uint32), "u64": (tl.uint64, np.uint64),
    "fp16": (tl.float16, np.float16), "bf16": (tl.bfloat16, np.uint16), "fp32": (tl.float32, np.float32), "fp64": (tl.float64, np.float64),
}  # fmt: skip


def _splat(self: Any, type: Any, value: Any) -> TensorHandle:
    """A scalar spread over a block: the interpreter's own makes integers of flags, which it then refuses as masks."""
    return TensorHandle(np.full(type.shape, value.data.ravel()[0], value.data.dtype), value.dtype.scalar)


interpreter.InterpreterBuilder.create_splat = _splat  # type: ignore[assignment]


_cast = interpreter.InterpreterBuilder.cast_impl


def _rounded(self: Any, value: Any, type: Any) -> TensorHandle:
    """FP32 to BF16 rounds to nearest even, and BF16 keeps its least numbers; the interpreter cuts the bits off, and loses those."""
    if value.dtype.scalar == tl.float32 and type.scalar == tl.bfloat16:
        return TensorHandle(value.data.astype(ml_dtypes.bfloat16).view(np.uint16), tl.bfloat16)
    if value.dtype.scalar == tl.bfloat16 and type.scalar in (tl.float32, tl.float64):
        return TensorHandle(value.data.view(ml_dtypes.bfloat16).astype(np.float32 if type.scalar == tl.float32 else np.float64), type.scalar)
    return _cast(self, value, type)


interpreter.InterpreterBuilder.cast_impl = _rounded  # type: ignore[method-assign]


class Libdevice:
    """What the interpreter lacks: NVIDIA's functions, in double precision and rounded once."""

    @staticmethod
    def _made(function: Callable[..., Array], *args: Any) -> Any:
        first = next(arg for arg in args if isinstance(arg, tl.tensor))
        with np.errstate(all="ignore"):
            data = function(*(arg.handle.data.astype(np.float64) if isinstance(arg, tl.tensor) else np.float64(arg) for arg in args))
        shape: Any = first.type
        for arg in args:
            if isinstance(arg, tl.tensor) and arg.handle.data.shape == data.shape:
                shape = arg.type
        double = any(isinstance(arg, tl.tensor) and arg.dtype.scalar == tl.float64 for arg in args)
        assert double or function is not np.power, "NVIDIA's power of singles is up to 23 units in the last place off: kernels take doubles"
        held = tl.float64 if double else tl.float32
        return tl.tensor(TensorHandle(data.astype(np.float64 if double else np.float32), held), shape)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        functions: dict[str, Callable[..., Array]] = {
            "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "pow": np.power, "fmod": np.fmod, "rint": np.rint,
            "erf": np.vectorize(math.erf, otypes=[np.float64]),
        }  # fmt: skip
        return lambda *args: self._made(functions[name], *args)


_one_at_a_time = threading.Lock()
"""The interpreter has one grid at a time; ranks are threads."""


class Machine(Walker):
    """A device made of NumPy arrays: addresses are those of the process."""

    def __init__(self, program: plan.Program) -> None:
        super().__init__(program)
        self.compiled: dict[int, Any] = {}
        self.own = threading.local()
        self.log = np.zeros(printing.HEADER + printing.PLACES, np.int64)
        self.kept: list[Array] = []

    def run(self, entry: str, arguments: Sequence[Any]) -> None:
        """Run an entry; arrays are written in place. Raises what kernels and steps report."""
        errors = self.own.errors = np.full(self.program.error_words, NONE)
        self.start(entry, arguments, [item.ctypes.data if isinstance(item, np.ndarray) else 0 for item in arguments])
        self.failed(errors.tolist())

    def allocate(self, size: int, byte: int = 0xA5) -> int:
        memory = np.full(size + 256, byte, np.uint8)
        self.kept.append(memory)
        return -(-memory.ctypes.data // 256) * 256

    def read(self, address: int, dtype: np.dtype[Any]) -> Any:
        return np.ctypeslib.as_array((ctypes.c_uint8 * dtype.itemsize).from_address(address)).view(dtype)[0]

    def launch(self, kernel: int, grid: tuple[int, ...], given: Sequence[Any]) -> None:
        facts, rest, logs = self.program.kernels[kernel], iter(given), False
        arguments: list[Any] = []
        if facts.walkers:  # as on a GPU of so many processors as one
            grid = (min(grid[0], facts.walkers), 1, 1)
        for parameter in facts.parameters:
            if parameter.kind == "scratch":
                value: Any = self.allocate(max(1, facts.scratch_bytes) * math.prod(grid))
            elif parameter.kind == "error":
                value = self.own.errors.ctypes.data
            elif parameter.kind == "barrier":
                value = self.allocate(max(4, facts.meeting_bytes * math.prod(grid)), byte=0)
            elif parameter.kind == "log":
                value, logs = self.log.ctypes.data, True
                self.log[:] = 0
            else:
                value = next(rest)
            arguments.append(argument(value, parameter.type))
        if kernel not in self.compiled:
            self.compiled[kernel] = load(facts)
        with _one_at_a_time:
            self.compiled[kernel][grid](*arguments)
        if logs:
            used = min(int(self.log[printing.NEXT]), printing.PLACES)
            printing.show(self.log[printing.HEADER :][:used], int(self.log[printing.LOST]), self.program.failures)


def load(kernel: plan.Kernel) -> Any:
    """The function of a kernel's text."""
    name = f"<{kernel.name}-{abs(hash(kernel.text))}>"
    linecache.cache[name] = (len(kernel.text), None, kernel.text.splitlines(True), name)
    space: dict[str, Any] = {"__name__": kernel.name}
    exec(compile(kernel.text, name, "exec"), space)
    space["libdevice"] = Libdevice()
    space["range"] = counted
    space[DESCRIPTORS] = tl.constexpr(True)
    return space[kernel.name]


def counted(*bounds: Any) -> Any:
    """`range` whose numbers are tensors, as they are in compiled code."""
    wide = any(isinstance(item, tl.tensor) and item.dtype == tl.int64 for item in bounds)
    numbers = [int(np.asarray(item.handle.data).ravel()[0]) if isinstance(item, tl.tensor) else int(item) for item in bounds]
    for item in range(*numbers):
        yield argument(item, "i64" if wide else "i32")


def argument(value: Any, type: str) -> Any:
    if type.startswith("*"):
        kind: Any = tl.pointer_type(_TYPES[type[1:]][0])
        return tl.tensor(TensorHandle(np.array([value], np.uint64), kind), kind)
    kind, numpy = _TYPES[type]
    with np.errstate(all="ignore"):
        return tl.tensor(TensorHandle(np.array([value]).astype(numpy), kind), kind)
