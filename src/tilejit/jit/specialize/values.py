"""What specialisation knows of an expression before any IR exists: a compile-time value, an extent, a tensor or tile type, or nothing."""

from __future__ import annotations

import ast
import enum
import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import cast

import numpy as np

from tilejit.dtypes import BOOL, FP32, INDEX, DType
from tilejit.jit.reads.handles import holds_handle, is_handle
from tilejit.jit.reads.plain import dumps, encode, is_plain, language_path
from tilejit.jit.reads.typed import TypedFloat
from tilejit.jit.specialize.meta import DynDim
from tilejit.types.enums import ENUMS
from tilejit.types.python_text import expression
from tilejit.types.values import BufferType, TileType, join, takes_number


@dataclass(frozen=True, slots=True)
class Static:
    """A compile-time value: plain, or a handle. `local`: known through a local name, so the text keeps the name."""

    value: object
    local: bool = False

    @property
    def dtype(self) -> DType | None:
        """That of a number that has its own."""
        return self.value.dtype if type(self.value) is TypedFloat else None


@dataclass(frozen=True, slots=True)
class Extent:
    """A run-time scalar that is an extent of a tensor."""

    dim: DynDim


@dataclass(frozen=True, slots=True)
class RuntimeValue:
    """A run-time scalar; its dtype if known. `unrolled`: a number that the front end knows once it has expanded the loop."""

    dtype: DType | None = None
    unrolled: bool = False


@dataclass(frozen=True, slots=True)
class Items:
    """A tuple, list or dict with members that are not all compile-time values; of an argument that was taken apart also a named tuple."""

    items: tuple[Abstract, ...]
    names: tuple[str, ...] = ()
    """The parameters that the members of an argument are."""
    keys: tuple[object, ...] = ()
    """Of a dict; the fields of a named tuple."""
    is_dict: bool = False
    key_class: str = ""
    """As in `Bundle`: the keys are not all that the kernel would get of them."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Anything else."""


UNKNOWN = Unknown()
Abstract = Static | Extent | RuntimeValue | Items | BufferType | TileType | Unknown


def number_node(value: int | float | bool) -> ast.expr:
    """A number as an expression that parses back to it, sign of zero included."""
    if isinstance(value, float) and not math.isfinite(value):
        return ast.Call(ast.Name("float", ast.Load()), [ast.Constant(str(value))], [])
    if not isinstance(value, bool) and (value < 0 or (isinstance(value, float) and math.copysign(1.0, value) < 0)):
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def _typed_node(value: TypedFloat) -> ast.expr:
    """A number of a data type that a bare literal would lose."""
    return expression(f"pl.const({ast.unparse(number_node(float(value)))}, pl.{value.dtype.name})")


_NUMBERS = frozenset({bool, int, float})


def literal(value: object) -> ast.expr | None:
    """An expression for a compile-time value that reads the same in any place, or None when there is none."""
    if type(value) in _NUMBERS:
        return number_node(cast("int", value))
    if type(value) is TypedFloat:
        return _typed_node(value)
    if is_handle(value):
        return None
    if isinstance(value, np.generic):
        value = cast("object", value.item())
    path = language_path(value)
    if path is not None:
        first, *rest = path.split(".")
        return reduce(lambda owner, name: ast.Attribute(owner, name, ast.Load()), rest, cast("ast.expr", ast.Name(first, ast.Load())))
    if isinstance(value, enum.IntEnum):
        value = int(value)
    if value is None or type(value) in (str, bytes) or value is Ellipsis:
        return ast.Constant(cast("str", value))
    if type(value) in _NUMBERS:
        return number_node(cast("int", value))
    if type(value) is complex:
        parts = [number_node(part) for part in (value.real, value.imag)]
        return ast.Call(ast.Attribute(ast.Name("pl", ast.Load()), "complex", ast.Load()), parts, [])
    if isinstance(value, (tuple, list)):
        items = [literal(item) for item in cast("tuple[object, ...]", value)]
        if any(item is None for item in items):
            return None
        known = [item for item in items if item is not None]
        return ast.Tuple(known, ast.Load()) if isinstance(value, tuple) else ast.List(known, ast.Load())
    if type(value) is dict:
        pairs = cast("dict[object, object]", value)
        keys, items = [literal(key) for key in pairs], [literal(item) for item in pairs.values()]
        if all(node is not None for node in [*keys, *items]):
            return ast.Dict(keys, [item for item in items if item is not None])
    return None


def parts_of(value: object) -> tuple[object, ...]:
    """What is in a container, as `extend` and `update` take it over."""
    if type(value) is dict:
        return tuple(cast("dict[object, object]", value).values())
    return tuple(cast("list[object]", value)) if type(value) in (list, tuple) else ()


def reaches(value: object, wanted: object) -> bool:
    """Whether a container is this very object, or has it in it."""
    if value is wanted:
        return True
    if type(value) is dict:
        return any(reaches(item, wanted) for item in cast("dict[object, object]", value).values())
    return type(value) in (tuple, list) and any(reaches(item, wanted) for item in cast("tuple[object, ...]", value))


def is_language(value: object) -> bool:
    """Whether a callee belongs to the language, so that the front end must see the call."""
    return language_path(value) is not None


def same(one: Abstract, other: Abstract) -> bool:
    """Whether two values are the same: numbers and texts by type and value, a handle, list or dict by itself."""
    if isinstance(one, Static) and isinstance(other, Static):
        if any(holds_handle(value) or not is_plain(value) for value in (one.value, other.value)):
            return one.value is other.value
        return dumps(encode(one.value)) == dumps(encode(other.value))  # as 1 and True are equal in Python
    if isinstance(one, Items) and isinstance(other, Items):
        kinds = [(value.keys, value.is_dict, value.key_class, len(value.items)) for value in (one, other)]
        return kinds[0] == kinds[1] and all(map(same, one.items, other.items))
    return one == other


def declared(value: object, dtype: DType | None) -> Static:
    """What a parameter holds: a number of a float type other than FP32 has that type, which its literal does not tell."""
    tells = dtype is None or dtype is FP32 or not dtype.is_float or not isinstance(value, float)
    return Static(value if tells else TypedFloat(cast("float", value), cast("DType", dtype)))


def value_of(arg: object) -> object:
    """What is known while compiling, as it is; all else as what is known of it."""
    return arg.value if isinstance(arg, Static) else arg


def items_of(arg: object) -> tuple[Abstract, ...]:
    """Members of a list argument."""
    if isinstance(arg, Items):
        return arg.items
    if isinstance(arg, Static) and isinstance(arg.value, (tuple, list)):
        return tuple(Static(item) for item in arg.value)
    return ()


def number_of(value: Abstract) -> int | float | bool | None:
    """The compile-time number a value is, else None."""
    if not isinstance(value, Static):
        return None
    if type(value.value) in _NUMBERS:
        return cast("int", value.value)
    if is_handle(value.value):
        return None
    plain = cast("object", value.value.item()) if isinstance(value.value, np.generic) else value.value
    if isinstance(plain, enum.Enum):
        return int(plain) if isinstance(plain, enum.IntEnum) and type(plain) not in ENUMS.values() else None
    return plain if isinstance(plain, (bool, int, float)) else None


def extent_of(value: Abstract) -> int | DynDim | None:
    """The extent a scalar stands for: a constant, a dynamic one, or None for any other run-time scalar."""
    if isinstance(value, Extent):
        return value.dim
    number = number_of(value)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def members_of(value: Abstract) -> tuple[Abstract, ...]:
    if isinstance(value, Items):
        return value.items
    if isinstance(value, Static) and isinstance(value.value, (tuple, list)):
        return tuple(Static(item, value.local) for item in value.value)
    return ()


def as_local(value: Abstract) -> Abstract:
    if isinstance(value, Static):
        return replace(value, local=not holds_handle(value.value))
    return replace(value, items=tuple(map(as_local, value.items)), names=()) if isinstance(value, Items) else value


def holds_object(value: Abstract) -> bool:
    """Whether there is an object of Python's among the members of a container with values of the run."""
    return isinstance(value, Items) and any(holds_object(item) or (isinstance(item, Static) and holds_handle(item.value)) for item in value.items)


def without_value(value: Abstract) -> Abstract:
    """What stays true of a name whose value changes: its type."""
    number = number_of(value)
    if isinstance(value, Static) and value.dtype is not None:
        return RuntimeValue(value.dtype)
    if number is not None:
        return RuntimeValue(BOOL if isinstance(number, bool) else INDEX if isinstance(number, int) else FP32)
    if isinstance(value, Extent):
        return RuntimeValue(INDEX)
    return value if isinstance(value, (BufferType, TileType, RuntimeValue)) else UNKNOWN


def joined(one: Abstract, other: Abstract) -> Abstract:
    """What a name holds after two paths."""
    if isinstance(one, (BufferType, TileType)) and isinstance(other, (BufferType, TileType)):
        both = join(one, other)
        return both if isinstance(both, (BufferType, TileType)) else UNKNOWN
    if same(one, other):
        return one
    kinds = without_value(one), without_value(other)
    if not isinstance(kinds[0], RuntimeValue) or not isinstance(kinds[1], RuntimeValue):
        return UNKNOWN
    for value, beside in ((one, kinds[1]), (other, kinds[0])):
        number = number_of(value) if isinstance(value, Static) and value.dtype is None else None
        if number is not None and beside.dtype is not None and takes_number(beside.dtype, number):
            return beside  # as in the front end: a literal takes the dtype of the other way
    return kinds[0] if kinds[0] == kinds[1] else RuntimeValue()
