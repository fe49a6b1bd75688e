"""Walks the host steps of a CUDA plan; what memory and launches are is up to the device that does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilejit import ops
from tilejit.backends.cuda import plan
from tilejit.dtypes import dtype_named
from tilejit.ops.evaluate import evaluate
from tilejit.runtime.call.failures import raise_failure
from tilejit.runtime.ranks.asked import Asked
from tilejit.types.values import ScalarType

NONE = (1 << 63) - 1
"""The failure word as long as nothing failed."""


class Walker:
    """Runs entries of a plan, step by step."""

    def __init__(self, program: plan.Program) -> None:
        self.program = program
        self.asked = Asked()

    def allocate(self, size: int) -> int:
        """The address of new memory."""
        raise NotImplementedError

    def launch(self, kernel: int, grid: tuple[int, ...], given: Sequence[Any]) -> None:
        raise NotImplementedError

    def read(self, address: int, dtype: np.dtype[Any]) -> Any:
        """One element."""
        raise NotImplementedError

    def failed(self, words: Sequence[int]) -> None:
        """Raise what kernels reported."""
        if words[0] != NONE:
            row = int(words[0]) & 0xFFFFF
            raise_failure(self.program.failures[row], [int(value) for value in words[1 + 4 * row : 5 + 4 * row]], self.program.failures)

    def start(self, entry: str, arguments: Sequence[Any], addresses: Sequence[int]) -> None:
        """Run an entry on arrays that lie at these addresses."""
        chosen = self.program.entries[entry]
        state: dict[str, Any] = {}
        for item in chosen.inputs:
            value = arguments[item.parameter]
            if item.fact == "address":
                state[item.name] = addresses[item.parameter]
            elif item.fact == "extent":
                state[item.name] = value.shape[item.axis]
            elif item.fact == "stride":
                state[item.name] = value.strides[item.axis] // value.itemsize
            else:
                state[item.name] = value
        self._steps(chosen.steps, state)

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
            case plan.Launch(kernel, grid, arguments):
                sizes = tuple(int(number(item, state)) for item in grid)
                if 0 not in sizes:
                    self.launch(kernel, sizes, [number(item, state) for item in arguments])
            case plan.Read(target, address, dtype):
                state[target] = self.read(number(address, state), dtype_named(dtype).numpy)
            case plan.Ask(target, what, arguments):
                state[target] = getattr(self.asked, what)(0, *(int(number(item, state)) for item in arguments))
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
            case plan.Blocks():
                raise NotImplementedError("blocks that wait for other ranks run in tests/ranks, where there are ranks")


def number(value: plan.Expr, state: Mapping[str, Any]) -> Any:
    """What an expression of the host program is."""
    if isinstance(value, plan.Var):
        return state[value.name]
    if not isinstance(value, plan.Apply):
        return value
    args = [number(arg, state) for arg in value.args]
    if value.op == "ceildiv":
        return -(-int(args[0]) // int(args[1]))
    if value.op == "array_create":
        return (0,) * args[0]
    if value.op == "array_get_element":
        return args[0][args[1]]
    if value.op == "array_update_element":
        return (*args[0][: args[1]], args[2], *args[0][args[1] + 1 :])
    row = ops.table()[value.op]
    dtypes = value.operands or ("INDEX",) * len(args)
    typed = [np.asarray(arg).astype(dtype_named(dtype).numpy)[()] for arg, dtype in zip(args, dtypes, strict=True)]
    statics = {name: dtype_named(str(item)) if name == "target_type" else item for name, item in value.statics}
    names = list(row.operands)[: len(typed)]
    return evaluate(row, {**dict(zip(names, typed, strict=True)), **statics}, (ScalarType(dtype_named(value.dtype)),))[0].item()
