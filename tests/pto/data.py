"""Data for PTO kernels: random arrays, and how results are compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.pto.harness import NDArray, run

R, C = 12, 40
f32, f16, i32 = np.float32, np.float16, np.int32
RNG = np.random.default_rng(7)


def floats(*shape: int, dtype: Any = f32) -> NDArray:
    return (RNG.standard_normal(shape) * 2).astype(dtype)


def integers(*shape: int, low: int = -1000, high: int = 1000, dtype: Any = i32) -> NDArray:
    return RNG.integers(low, high, shape).astype(dtype)


def outputs(name: str, inputs: list[NDArray], shapes: list[tuple[tuple[int, int], Any]]) -> list[NDArray]:
    """Run a kernel of inputs and outputs; what the outputs held before is noise."""
    made = [RNG.integers(1, 100, shape).astype(dtype) for shape, dtype in shapes]
    before = [array.copy() for array in inputs]
    run(name, *inputs, *made)
    for array, old in zip(inputs, before):
        np.testing.assert_array_equal(array, old)
    return made


def exact(got: NDArray, wanted: NDArray) -> None:
    np.testing.assert_array_equal(got, wanted)
