"""Runs a row of the table on arrays, the way the builder and the reference backend do together."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilejit.dtypes import BOOL, FP32, INDEX, DType, dtype_of_numpy
from tilejit.ops import table
from tilejit.ops.evaluate import ArrayValue, evaluate, whole
from tilejit.ops.spec import Call, ParamKind, ScalarArg
from tilejit.types.values import ANY, BufferType, Shape, TileType, ValueType

rng = np.random.default_rng(7)


def random_array(shape: tuple[int, ...], dtype: DType, low: float = -4, high: float = 4) -> Any:
    """Random cells, never all alike; integers use the whole range unless bounds are given."""
    if dtype is BOOL:
        return rng.random(shape) < 0.5
    values = rng.uniform(low, high, shape)
    if dtype.is_float:
        return values.astype(dtype.numpy)
    if (low, high) != (-4, 4):
        return rng.integers(int(low), int(high), shape).astype(dtype.numpy)
    return rng.integers(0, 256, (*shape, dtype.get_byte()), dtype=np.uint8).view(dtype.numpy)[..., 0]


def partial(data: Any, *valid: int) -> ArrayValue:
    """A value that is valid only in a box; the rest is random rubbish."""
    return ArrayValue(data, valid)


def _scalar(value: Any) -> tuple[ScalarArg, Any]:
    if isinstance(value, bool):
        return ScalarArg(BOOL, value), np.bool_(value)
    if isinstance(value, int):
        return ScalarArg(INDEX, value), np.int64(value)
    if isinstance(value, float) and not isinstance(value, np.float64):
        return ScalarArg(FP32, value), np.float32(value)
    dtype = dtype_of_numpy(np.asarray(value).dtype)
    assert dtype is not None
    return ScalarArg(dtype), value


def _shaped(value: ArrayValue, level: str) -> BufferType | TileType:
    dtype = dtype_of_numpy(value.data.dtype)
    assert dtype is not None
    if level == "tensor" and value.valid == value.data.shape:
        # a static extent of 0 does not exist: such an extent was dynamic
        return BufferType(tuple(n or ANY for n in value.data.shape), dtype)
    return TileType(value.data.shape, dtype, value.valid, "DDR" if level == "tensor" else "Vec")


def run(name: str, level: str = "tile", **args: Any) -> tuple[tuple[ValueType, ...], tuple[Any, ...]]:
    """Result types and values of a row; arrays, ArrayValues, numbers (constants), NumPy scalars (run-time) and lists of those go in."""
    row = table()[name]
    seen: dict[str, Any] = {}
    given: dict[str, Any] = {}
    for key, value in args.items():
        kind = row.param(key).kind
        if kind is ParamKind.Static or value is None:
            seen[key] = given[key] = value
        elif kind is ParamKind.Scalars:
            pairs = [_scalar(item) for item in value]
            seen[key], given[key] = tuple(s for s, _ in pairs), tuple(v for _, v in pairs)
        elif isinstance(value, np.ndarray | ArrayValue):
            given[key] = whole(value) if isinstance(value, np.ndarray) else value
            seen[key] = _shaped(given[key], level)
        else:
            seen[key], given[key] = _scalar(value)
    types = row.infer(Call(row, level, seen))
    return types, evaluate(row, given, types)


def value(name: str, level: str = "tile", **args: Any) -> Any:
    """The only result of a row, checked against its type: an array where everything is valid, else an ArrayValue or scalar."""
    types, values = run(name, level, **args)
    assert len(types) == len(values) == 1
    result, type = values[0], types[0]
    if not isinstance(result, ArrayValue):
        assert np.asarray(result).dtype == type.dtype.numpy
        return result
    assert isinstance(type, TileType)
    assert result.data.dtype == type.dtype.numpy
    assert type.level == level
    for expected, got in zip((*type.shape, *type.valid), (*result.data.shape, *result.valid), strict=True):
        assert expected in (got, ANY)
    return result.data if result.valid == result.data.shape else result


def infer(name: str, level: str, **args: Any) -> tuple[TileType, Call]:
    """The type of the only result on operand types, and the call with its run-time checks."""
    row = table()[name]
    call = Call(row, level, args)
    type = row.infer(call)[0]
    assert isinstance(type, TileType)
    return type, call


def tensor(shape: Shape, dtype: DType = FP32) -> BufferType:
    return BufferType(shape, dtype)


def tile(shape: Shape, dtype: DType = FP32, valid: Shape | None = None) -> TileType:
    return TileType(shape, dtype, shape if valid is None else valid)
