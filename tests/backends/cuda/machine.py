"""Runs a CUDA plan in Triton's interpreter on NumPy arrays. Import it only in a process with TRITON_INTERPRET=1."""

from __future__ import annotations

import linecache
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

os.environ["TRITON_INTERPRET"] = "1"

import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

from tilejit import ops
from tilejit.backends.cuda import plan
from tilejit.dtypes import dtype_named
from tilejit.ops.evaluate import evaluate
from tilejit.runtime.call.failures import raise_failure
from tilejit.types.values import ScalarType

Array = np.ndarray[Any, Any]
NONE = (1 << 63) - 1

_TYPES: dict[str, tuple[Any, Any]] = {
    "i1": (tl.int1, np.bool_), "i8": (tl.int8, np.int8), "i16": (tl.int16, np.int16), "i32": (tl.int32, np.int32), "i64": (tl.int64, np.int64),
    "u8": (tl.uint8, np.uint8), "u16": (tl.uint16, np.uint16), "u32": (tl.uint32, np.uint32), "u64": (tl.uint64, np.uint64),
    "fp16": (tl.float16, np.float16), "bf16": (tl.bfloat16, np.uint16), "fp32": (tl.float32, np.float32),
}  # fmt: skip


def _splat(self: Any, type: Any, value: Any) -> TensorHandle:
    """A scalar spread over a block: the interpreter's own makes integers of flags, which it then refuses as masks."""
    return TensorHandle(np.full(type.shape, value.data.ravel()[0], value.data.dtype), value.dtype.scalar)


interpreter.InterpreterBuilder.create_splat = _splat


class Libdevice:
    """What the interpreter lacks: NVIDIA's functions, in double precision and rounded once."""

    @staticmethod
    def _made(function: Callable[..., Array], *args: Any) -> Any:
        first = next(arg for arg in args if isinstance(arg, tl.tensor))
        with np.errstate(all="ignore"):
            data = function(*(arg.handle.data.astype(np.float64) if isinstance(arg, tl.tensor) else np.float64(arg) for arg in args)).astype(np.float32)
        shape = first.type
        for arg in args:
            if isinstance(arg, tl.tensor) and arg.handle.data.shape == data.shape:
                shape = arg.type
        return tl.tensor(TensorHandle(data, tl.float32), shape)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        functions: dict[str, Callable[..., Array]] = {
            "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "pow": np.power, "fmod": np.fmod, "rint": np.rint,
            "erf": np.vectorize(math.erf, otypes=[np.float64]),
        }  # fmt: skip
        return lambda *args: self._made(functions[name], *args)


class Machine:
    """A device made of NumPy arrays: addresses are those of the process."""

    def __init__(self, program: plan.Program) -> None:
        self.program = program
        self.compiled: dict[int, Any] = {}
        self.errors = np.zeros(program.error_words, np.int64)
        self.kept: list[Array] = []

    def run(self, entry: str, arguments: Sequence[Any]) -> None:
        """Run an entry; arrays are written in place. Raises what kernels and steps report."""
        self.errors[:] = NONE
        chosen = self.program.entries[entry]
        state: dict[str, Any] = {}
        for item in chosen.inputs:
            value = arguments[item.parameter]
            if item.fact == "address":
                state[item.name] = value.ctypes.data
            elif item.fact == "extent":
                state[item.name] = value.shape[item.axis]
            elif item.fact == "stride":
                state[item.name] = value.strides[item.axis] // value.itemsize
            else:
                state[item.name] = value
        self._steps(chosen.steps, state)
        self._failed()

    def _failed(self) -> None:
        if self.errors[0] != NONE:
            row = int(self.errors[0]) & 0xFFFFF
            raise_failure(self.program.failures[row], [int(value) for value in self.errors[1 + 4 * row : 5 + 4 * row]], self.program.failures)

    def _steps(self, steps: Sequence[plan.Step], state: dict[str, Any]) -> None:
        for step in steps:
            self._step(step, state)

    def _step(self, step: plan.Step, state: dict[str, Any]) -> None:
        match step:
            case plan.Compute(target, value):
                state[target] = number(value, state)
            case plan.Move(targets, values):
                found = [number(value, state) for value in values]
                state.update(zip(targets, found, strict=True))
            case plan.Allocate(target, size):
                state[target] = self.allocate(max(1, number(size, state)))
            case plan.Launch():
                self._launch(step, state)
            case plan.Read(target, address, dtype):
                kind = dtype_named(dtype).numpy
                state[target] = _at(number(address, state), kind.itemsize).view(kind)[0]
            case plan.Check(condition, failure, values):
                if not number(condition, state):
                    raise_failure(self.program.failures[failure], [int(number(value, state)) for value in values], self.program.failures)
            case plan.For(target, lower, upper, by, body):
                for index in range(*(int(number(item, state)) for item in (lower, upper, by))):
                    state[target] = index
                    self._steps(body, state)
            case plan.While(before, condition, body):
                self._steps(before, state)
                while number(condition, state):
                    self._steps(body, state)
                    self._steps(before, state)
            case plan.If(condition, then, orelse):
                self._steps(then if number(condition, state) else orelse, state)

    def allocate(self, size: int) -> int:
        memory = np.full(size + 256, 0xA5, np.uint8)
        self.kept.append(memory)
        return -(-memory.ctypes.data // 256) * 256

    def _launch(self, step: plan.Launch, state: Mapping[str, Any]) -> None:
        kernel = self.program.kernels[step.kernel]
        grid = tuple(int(number(item, state)) for item in step.grid)
        if 0 in grid:
            return
        given = iter([number(item, state) for item in step.arguments])
        arguments: list[Any] = []
        for parameter in kernel.parameters:
            if parameter.kind == "scratch":
                value: Any = self.allocate(max(1, kernel.scratch_bytes) * math.prod(grid))
            elif parameter.kind == "error":
                value = self.errors.ctypes.data
            else:
                value = next(given)
            arguments.append(_argument(value, parameter.type))
        self._function(step.kernel)[grid](*arguments)

    def _function(self, position: int) -> Any:
        if position not in self.compiled:
            kernel = self.program.kernels[position]
            self.compiled[position] = load(kernel)
        return self.compiled[position]


def load(kernel: plan.Kernel) -> Any:
    """The function of a kernel's text."""
    name = f"<{kernel.name}-{abs(hash(kernel.text))}>"
    linecache.cache[name] = (len(kernel.text), None, kernel.text.splitlines(True), name)
    space: dict[str, Any] = {}
    exec(compile(kernel.text, name, "exec"), space)
    space["libdevice"] = Libdevice()
    space["range"] = counted
    return space[kernel.name]


def counted(*bounds: Any) -> Any:
    """`range` whose numbers are tensors, as they are in compiled code."""
    wide = any(isinstance(item, tl.tensor) and item.dtype == tl.int64 for item in bounds)
    numbers = [int(np.asarray(item.handle.data).ravel()[0]) if isinstance(item, tl.tensor) else int(item) for item in bounds]
    for item in range(*numbers):
        yield _argument(item, "i64" if wide else "i32")


def _argument(value: Any, type: str) -> Any:
    if type.startswith("*"):
        kind = tl.pointer_type(_TYPES[type[1:]][0])
        return tl.tensor(TensorHandle(np.array([value], np.uint64), kind), kind)
    kind, numpy = _TYPES[type]
    with np.errstate(all="ignore"):
        return tl.tensor(TensorHandle(np.array([value]).astype(numpy), kind), kind)


def _at(address: int, size: int) -> Array:
    import ctypes

    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)


def number(value: plan.Expr, state: Mapping[str, Any]) -> Any:
    """What an expression of the host program is."""
    if isinstance(value, plan.Var):
        return state[value.name]
    if not isinstance(value, plan.Apply):
        return value
    args = [number(arg, state) for arg in value.args]
    if value.op == "ceildiv":
        return -(-int(args[0]) // int(args[1]))
    row = ops.table()[value.op]
    dtypes = value.operands or ("INDEX",) * len(args)
    typed = [np.asarray(arg).astype(dtype_named(dtype).numpy)[()] for arg, dtype in zip(args, dtypes, strict=True)]
    statics = {name: dtype_named(str(item)) if name == "target_type" else item for name, item in value.statics}
    names = [name for name in row.operands][: len(typed)]
    return evaluate(row, {**dict(zip(names, typed, strict=True)), **statics}, (ScalarType(dtype_named(value.dtype)),))[0].item()
