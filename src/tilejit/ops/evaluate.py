"""The meaning of an op on concrete arrays: what the reference backend, constant folding and every test run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.dtypes import BOOL, DType
from tilejit.ops.spec import OpSpec
from tilejit.types.values import ArrayType, ScalarType, ShapedType, ValueType

NDArray = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class ArrayValue:
    """A tile or tensor value: its cells, and the box at the origin in which they mean something."""

    data: NDArray
    valid: tuple[int, ...]

    @property
    def box(self) -> NDArray:
        """The valid cells."""
        return self.data[tuple(slice(0, n) for n in self.valid)]


def whole(data: NDArray) -> ArrayValue:
    """A value all of whose cells are valid."""
    return ArrayValue(data, data.shape)


def poison(shape: tuple[int, ...], dtype: DType) -> NDArray:
    """Cells that mean nothing: NaN, or for integers a pattern that no kernel computes by accident."""
    out = np.empty(shape, dtype.numpy)
    if dtype.is_float:
        out.fill(np.nan)
    else:
        out.view(np.uint8).fill(1 if dtype is BOOL else 0xA5)
    return out


def placed(box: NDArray, shape: tuple[int, ...], dtype: DType) -> ArrayValue:
    """A value of `shape` whose valid region holds `box`; everything else is poison."""
    if box.shape == shape:
        return ArrayValue(np.ascontiguousarray(box, dtype.numpy), shape)
    data = poison(shape, dtype)
    data[tuple(slice(0, n) for n in box.shape)] = box
    return ArrayValue(data, box.shape)


Argument = Any
"""ArrayValue, NumPy scalar, tuple of NumPy scalars, or a static value."""


def evaluate(row: OpSpec, args: Mapping[str, Argument], results: tuple[ValueType, ...]) -> tuple[Any, ...]:
    """Results of `row` on concrete arguments; `results` are the inferred types (their ANY extents come from the arguments)."""
    with np.errstate(all="ignore"):
        if row.family == "elementwise":
            return (_elementwise(row, args, results[0]),)
        value = row.reference(results=results, **args)
    return value if isinstance(value, tuple) else (value,)
