"""The meaning of an op on concrete arrays: what the reference backend, constant folding and every test run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.dtypes import BOOL, DType
from tilejit.ops.elementwise import compute_dtype, in_register, value_dtype
from tilejit.ops.numbers import convert
from tilejit.ops.spec import OpSpec, ParamKind
from tilejit.types.values import ScalarType, ValueType

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
    (poisoner.get() or usual_poison)(out, dtype)
    return out


def usual_poison(out: NDArray, dtype: DType) -> None:
    """Fill cells that mean nothing."""
    if dtype.is_float:
        out.fill(np.nan)
    else:
        out.view(np.uint8).fill(1 if dtype is BOOL else 0xA5)


poisoner: ContextVar[Callable[[NDArray, DType], None] | None] = ContextVar("poisoner", default=None)
"""What fills cells that mean nothing instead: the sanitizer watches it, and tries several."""


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
    """Results of `row` on concrete arguments; `results` are the inferred types (their ANY extents come from the arguments).

    Results are ArrayValues for shaped types and NumPy scalars of the exact dtype for scalars. A reference outside the elementwise
    family is called as `reference(results=…, <parameter>=…)` without scratch operands and returns one value or a tuple.
    """
    given = {param.name: args.get(param.name, param.default) for param in row.params if param.kind is not ParamKind.Scratch}
    with np.errstate(all="ignore"):
        if row.family == "elementwise":
            return (_elementwise(row, given, results[0]),)
        value = row.reference(results=results, **given)
    return value if isinstance(value, tuple) else (value,)


def _elementwise(row: OpSpec, args: Mapping[str, Argument], result: ValueType) -> Any:
    names = [name for name in row.operands if args[name] is not None]
    arrays = [args[name] for name in names]
    shape = np.broadcast_shapes(*(value.data.shape for value in arrays if isinstance(value, ArrayValue)))
    boxes = [_box(value, shape, arrays) if isinstance(value, ArrayValue) else np.asarray(value) for value in arrays]
    dtypes = {name: value_dtype(box) for name, box in zip(names, boxes, strict=True)}
    ready = []
    for name, box in zip(names, boxes, strict=True):
        dtype = compute_dtype(row, name, dtypes, result.dtype)
        ready.append(in_register(convert(box, dtype), dtype))
    out = convert(np.asarray(row.reference(*ready, **{name: args[name] for name in row.attrs["takes"]})), result.dtype)
    if isinstance(result, ScalarType):
        return out[()]
    return placed(out, shape, result.dtype)


def _box(value: ArrayValue, shape: tuple[int, ...], arrays: list[Argument]) -> NDArray:
    """The cells of an operand that meet the common valid region of all operands."""
    valid = common_valid_extents(shape, [other for other in arrays if isinstance(other, ArrayValue)])
    rank = value.data.ndim
    cut = valid[len(shape) - rank :]
    return value.data[tuple(slice(0, min(n, extent)) for n, extent in zip(cut, value.data.shape, strict=True))]


def common_valid_extents(shape: tuple[int, ...], values: list[ArrayValue]) -> tuple[int, ...]:
    """Extents of the intersection of valid regions after broadcasting to `shape`."""
    out = list(shape)
    for value in values:
        offset = len(shape) - value.data.ndim
        for own, (extent, valid) in enumerate(zip(value.data.shape, value.valid, strict=True)):
            stretched = extent == 1 and shape[own + offset] != 1
            if not stretched:
                out[own + offset] = min(out[own + offset], valid)
            elif valid == 0:
                out[own + offset] = 0
    return tuple(out)
