"""Kernels written twice: once generic as `@pl.jit`, once by hand as the `@pl.program` it must become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilejit import ir
from tilejit.jit.function import JITFunction

rng = np.random.default_rng(11)


@dataclass(frozen=True)
class Pair:
    """One kernel in both forms, its inputs, and what it computes in NumPy.

    `inputs` are the tensors in declaration order; outputs at the end may be left out, then they are returned.
    """

    kernel: JITFunction
    program: ir.Program
    inputs: tuple[np.ndarray, ...]
    expected: Callable[..., object]
    scalars: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Scalars of the jit call, by name; they are literals in the program."""
    name: str = ""

    @property
    def title(self) -> str:
        return self.name or self.kernel.__name__

    def tensors(self) -> dict[str, Any]:
        """Copies of the inputs by parameter."""
        names = [param.name for param in self.kernel.definition.params if param.kind == "tensor"]
        return {name: array.copy() for name, array in zip(names, self.inputs, strict=False)}

    def outputs(self) -> list[str]:
        return [param.name for param in self.kernel.definition.params if param.direction != "In"]


def f32(*shape: int) -> np.ndarray:
    """Random numbers of both signs."""
    return rng.standard_normal(shape).astype(np.float32)
