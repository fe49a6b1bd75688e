"""Compile-time values and plain types as text and back, for attributes and structural hashes."""

from __future__ import annotations

import ast
import enum
import math
import re

from tilejit.dtypes import DTYPES, DType
from tilejit.types.enums import ENUMS
from tilejit.types.python_text import expression
from tilejit.types.values import ArrayType, BufferType, Dim, ScalarType, TileType, ValueType


class ParameterName(str):
    """A parameter in the attributes of its function: written as the bare name."""

    __slots__ = ()


def write_literal(value: object) -> str:
    """Text of a static value; equal text means equal value, types included (`1`, `1.0` and `True` differ)."""
    if isinstance(value, DType):
        return f"dtype({value.name!r})"
    if isinstance(value, enum.Enum):
        return f"enum({type(value).__name__ + '.' + value.name!r})"
    if isinstance(value, tuple | list):
        return "(" + "".join(write_literal(item) + ", " for item in value) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {write_literal(item)}" for key, item in sorted(value.items())) + "}"
    if isinstance(value, float):
        return f"float({value.hex()!r})" if math.isfinite(value) else f"float({str(value)!r})"
    if isinstance(value, ParameterName):
        return f"parameter({str(value)!r})"
    if value is None or isinstance(value, bool | int | str):
        return repr(value)
    if isinstance(value, ScalarType | BufferType | TileType | ArrayType):
        return f"type({write_type(value)!r})"
    raise TypeError(f"not a static value: {value!r}")


def read_literal(text: str) -> object:
    """The value whose text is `text`. Nothing is evaluated: only the forms that `write_literal` makes are understood."""
    return _read(expression(text))


def _read(node: ast.expr) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        assert isinstance(node.operand.value, int | float)
        return -node.operand.value
    if isinstance(node, ast.Tuple):
        return tuple(_read(item) for item in node.elts)
    if isinstance(node, ast.Dict):
        return {_read(key): _read(value) for key, value in zip(node.keys, node.values, strict=True) if key is not None}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        argument = _read(node.args[0])
        if isinstance(argument, str):
            return _READERS[node.func.id](argument)
    raise ValueError(f"not the text of a static value: {ast.unparse(node)}")


def _read_float(text: str) -> float:
    return float.fromhex(text)


def _read_enum(text: str) -> enum.Enum:
    cls, _, member = text.partition(".")
    return ENUMS[cls][member]


def write_type(type: ValueType) -> str:
    """Text of a plain type."""
    match type:
        case ScalarType(dtype):
            return f"scalar {dtype.name}"
        case BufferType(shape, dtype, layout):
            return f"buffer {_dims(shape)} {dtype.name} {layout}"
        case TileType(shape, dtype, valid, space):
            return f"tile {_dims(shape)} {dtype.name} {_dims(valid)} {space}"
        case ArrayType(extent, dtype):
            return f"array {extent} {dtype.name}"


def read_type(text: str) -> ValueType:
    """The plain type whose text is `text`."""
    kind, *rest = text.split()
    if kind == "scalar":
        return ScalarType(DTYPES[rest[0]])
    if kind == "buffer":
        return BufferType(_read_dims(rest[0]), DTYPES[rest[1]], rest[2])
    if kind == "tile":
        return TileType(_read_dims(rest[0]), DTYPES[rest[1]], _read_dims(rest[2]), rest[3])
    if kind == "array":
        return ArrayType(int(rest[0]), DTYPES[rest[1]])
    raise ValueError(f"not the text of a type: {text}")


def _dims(shape: tuple[Dim, ...]) -> str:
    return "[" + ",".join(str(dim) for dim in shape) + "]"


def _read_dims(text: str) -> tuple[Dim, ...]:
    items = [item for item in text[1:-1].split(",") if item]
    return tuple(int(item) if re.fullmatch(r"-?\d+", item) else item for item in items)


_READERS = {"parameter": ParameterName, "dtype": DTYPES.__getitem__, "enum": _read_enum, "float": _read_float, "type": read_type}
