"""What a name can hold while a body is read: run-time SSA values, compile-time Python objects, tuples of both."""

from __future__ import annotations

import ast
import enum
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from xdsl.ir import Block, SSAValue

from tilejit.dtypes import BOOL, FP32, FP64, INDEX, UINT64, DType, integer_range, promote
from tilejit.errors import DTypeError, Span
from tilejit.frontend.source import FunctionText
from tilejit.ops.dtype_rules import as_float, fits, int_text
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of
from tilejit.types.values import ANY, Dim, ScalarType, ShapedType


@dataclass(frozen=True, slots=True)
class Binding:
    """A name's current value and where it got it."""

    value: object
    span: Span


@dataclass(frozen=True, slots=True)
class Undefined:
    """What a name holds that some path leaves without a value: reading it is an error that says why."""

    reason: str
    help: str | None = None


class Perhaps(tuple[object, ...]):
    """What a name holds that no round of a loop may have bound: the value, a BOOL that says whether it has one, and what to say if not."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class YieldRecord:
    """One `names = pl.yield_(values)` of a loop or branch."""

    names: tuple[str, ...]
    values: tuple[object, ...]
    node: ast.stmt


@dataclass(frozen=True, slots=True)
class TypedConstant:
    """`pl.const(value, dtype)`: a compile-time number with a data type of its own."""

    value: int | float | bool
    dtype: DType

    def __repr__(self) -> str:
        return f"pl.const({self.value!r}, pl.{self.dtype.name})"


class RunText(str):
    """An f-string of what only the run knows: it says what kind of value stands there, for messages and names, and nothing may be computed from it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TaskHandle:
    """A task id: what `with pl.at(...) as tid` binds. Source order already satisfies every dependency."""

    name: str

    def __repr__(self) -> str:
        return "a task id"


@dataclass(frozen=True, slots=True)
class CommContext:
    """A group of ranks: what pld.system.get_comm_ctx gives."""

    value: SSAValue

    def __repr__(self) -> str:
        return "the context of a group"


@dataclass(frozen=True, slots=True)
class NoValue:
    """What calling a function without a result evaluates to."""

    function: str


@dataclass(frozen=True, slots=True)
class SelfReference:
    """`self` in a method of a program: its functions by name, and the attributes of its class."""

    functions: frozenset[str]
    owner: type | None = None


@dataclass(frozen=True, slots=True)
class MethodReference:
    """`self.name` where name is a function of the program."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class InlineFunction:
    """A function that is expanded at each call site."""

    name: str
    text: FunctionText
    namespace: Mapping[str, object] = field(repr=False)
    python: Callable[..., object] | None = field(default=None, repr=False)
    auto_scope: bool | None = None
    """Whether its body is a dependency scope of its own; None: as the function that it is expanded in."""

    @property
    def __name__(self) -> str:
        return self.name

    def __cache_signature__(self) -> object:
        """The Python function stands for it in cache keys: its text and what it reads."""
        return self.python or ast.unparse(self.text.node)

    def __call__(self, *args: object, **kwargs: object) -> object:
        from tilejit.errors import InvalidOperationError

        raise InvalidOperationError(f"`{self.name}` is a @pl.inline function and has no meaning outside a kernel")


def is_static(value: object) -> bool:
    """Whether a value is known while compiling, all the way down."""
    if isinstance(value, SSAValue):
        return False
    if isinstance(value, tuple | list):
        return all(is_static(item) for item in value)
    return not isinstance(value, Undefined | NoValue | RunText)


_VIEWS = (type({}.values()), type({}.items()))
_CONTAINERS = (tuple, list, *_VIEWS)


def is_known(value: object) -> bool:
    """As `is_static`, and of what is in dicts too: those with values of the run may be carried around, but not compared, shown or handed to Python."""
    left, seen = [value], set[int]()
    while left:
        item = left.pop()
        if type(item) is dict or isinstance(item, _CONTAINERS):
            if id(item) not in seen:
                seen.add(id(item))
                left += item.values() if isinstance(item, dict) else item
        elif not is_static(item):
            return False
    return True


def equal(one: object, other: object) -> bool | None:
    """Whether two values are equal, as Python compares members of containers; None: the run decides."""
    if one is other:
        return True
    if is_known(one) and is_known(other):
        return bool(one == other)
    if any(isinstance(side, SSAValue | RunText) for side in (one, other)):
        return False if one is None or other is None else None
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and _all_of(equal(item, other[key]) for key, item in one.items())
    for kind in (tuple, list):
        if isinstance(one, kind) and isinstance(other, kind):
            return len(one) == len(other) and _all_of(map(equal, one, other))
    return None if any(isinstance(side, _VIEWS) for side in (one, other)) else False


def _all_of(parts: Iterable[bool | None]) -> bool | None:
    found = list(parts)
    return False if False in found else None if None in found else True


_PLAIN = frozenset({int, float, bool, TypedConstant})


def is_number(value: object) -> bool:
    """A compile-time scalar: Python or NumPy number, or `pl.const`. Members of an IntEnum are numbers."""
    if type(value) in _PLAIN:
        return True
    if isinstance(value, SSAValue):
        return False
    return isinstance(value, numbers.Real | TypedConstant | bool) or _is_numpy_bool(value)


def _is_numpy_bool(value: object) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")


def plain_number(value: object) -> int | float | bool:
    """A compile-time scalar as a Python number."""
    if type(value) in (int, float, bool):
        return value  # type: ignore[return-value]
    if isinstance(value, TypedConstant):
        return value.value
    if isinstance(value, bool) or _is_numpy_bool(value):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    assert isinstance(value, numbers.Real), value
    return float(value)


def number_dtype(value: object) -> DType:
    """The data type a compile-time scalar has when nothing else decides."""
    if isinstance(value, TypedConstant):
        return value.dtype
    plain = plain_number(value)
    return BOOL if isinstance(plain, bool) else INDEX if isinstance(plain, int) else FP32


def with_wide_literals(args: Sequence[object], dtype: object = None) -> Sequence[object]:
    """Arguments of an op; literals that their own type cannot hold become constants of the type that they have next to the others (or of `dtype`)."""
    if not any(is_wide(arg) for arg in args):
        return args
    around = [dtype] if isinstance(dtype, DType) else [found for arg in args if (found := _own_dtype(arg)) is not None]
    return [_beside(arg, around) if is_wide(arg) else arg for arg in args]


def compared(left: object, right: object) -> tuple[object, object]:
    """Two scalars to compare; next to a UINT64 an int literal is one too, as in arithmetic, lest both be compared as signed."""

    def beside(value: object, other: object) -> object:
        plain = isinstance(value, numbers.Integral) and not isinstance(value, bool) and 0 <= int(value) <= integer_range(UINT64)[1]
        return TypedConstant(int(value), UINT64) if plain and isinstance(value, numbers.Integral) and _own_dtype(other) is UINT64 else value

    return beside(left, right), beside(right, left)


def is_wide(value: object) -> bool:
    """A number without a dtype of its own: an int that INDEX cannot hold, or a float, which has all its digits next to FP64."""
    if isinstance(value, float):
        return True
    if isinstance(value, SSAValue | str) or not isinstance(value, numbers.Integral):
        return False
    low, high = integer_range(INDEX)
    return not low <= int(value) <= high


def _own_dtype(value: object) -> DType | None:
    """The data type that an operand brings along; a bare int has none."""
    if isinstance(value, SSAValue):
        return d.type_of(value).dtype
    return number_dtype(value) if isinstance(value, TypedConstant) or (is_number(value) and not isinstance(plain_number(value), int)) else None


def _beside(value: object, around: Sequence[DType]) -> object:
    """A wide literal next to data of these types: of the float type among them, else of a type that has its bits; as it is without such data."""
    number = plain_number(value)
    if isinstance(number, float):
        return TypedConstant(number, FP64) if FP64 in around else value
    floats = [dtype for dtype in around if dtype.is_float]
    if floats:
        dtype = reduce(promote, floats)
        return TypedConstant(as_float(number, dtype), dtype)
    integers = [dtype for dtype in around if dtype.is_integer and dtype is not INDEX]
    if not integers:
        return value
    holder = next((dtype for dtype in integers if fits(number, dtype)), None)
    if holder is None:
        raise DTypeError(f"{int_text(int(number))} does not fit {integers[0]}", help="choose a wider dtype; pl.cast converts data")
    return TypedConstant(int(number) - (1 << holder.bits if int(number) > integer_range(holder)[1] else 0), holder)


def static_integer(value: object) -> int | None:
    """The integer a value is known to be while compiling, else None."""
    if isinstance(value, SSAValue):
        value = constant_of(value)
    if value is None or not is_number(value):
        return None
    plain = plain_number(value)
    return plain if isinstance(plain, int) and not isinstance(plain, bool) else None


def is_scalar(value: object) -> bool:
    """A run-time scalar, or a compile-time number."""
    return isinstance(d.type_of(value), ScalarType) if isinstance(value, SSAValue) else is_number(value)


def shaped(value: object) -> ShapedType | None:
    """The type of a tensor or tile, else None."""
    if isinstance(value, SSAValue):
        type = d.type_of(value)
        return type if isinstance(type, ShapedType) else None
    return None


def same_static(a: object, b: object) -> bool:
    """Whether two values are one: the same SSA value, or equal compile-time values of the same type."""
    if a is b:
        return True
    if isinstance(a, SSAValue) or isinstance(b, SSAValue) or type(a) is not type(b):
        return False
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(same_static(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float):
        return repr(a) == repr(b)
    try:
        return bool(a == b)
    except Exception:
        return False


def extent_of(value: object) -> Dim:
    """The extent a scalar stands for: an integer, the symbol of the dimension it was read from, or ANY."""
    known = static_integer(value)
    if known is not None:
        return known
    if isinstance(value, SSAValue) and isinstance(value.owner, d.DimOp):
        return d.shaped_type(value.owner.source).shape[value.owner.axis]
    return ANY


def describe_value(value: object) -> str:
    """A few words for any value in a message."""
    return _described(value, ())


def _described(value: object, around: tuple[object, ...]) -> str:
    """As `describe_value`, within containers: one that holds itself is not described again."""
    if isinstance(value, SSAValue):
        return str(d.type_of(value))
    if any(value is container for container in around):
        return "…"
    if isinstance(value, tuple | list):
        return "(" + ", ".join(_described(item, (*around, value)) for item in value) + ")"
    if isinstance(value, dict) and not is_known(value):
        return "{" + ", ".join(f"{key!r}: {_described(item, (*around, value))}" for key, item in value.items()) + "}"
    if isinstance(value, (*_VIEWS, set, frozenset)) and not all(map(is_known, value)):
        return f"{type(value).__name__}({', '.join(_described(item, around) for item in value)})"
    if isinstance(value, NoValue):
        return f"nothing (`{value.function}` returns no value)"
    text = f"pl.{type(value).__name__}.{value.name}" if isinstance(value, enum.Enum) else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def defined_inside(value: SSAValue, block: Block) -> bool:
    """Whether `value` is computed in `block` or in a block nested in it."""
    return block.is_ancestor(value.owner)


LANE_1 = "·1"
"""Ends the names that lane 1 of a pl.split_aiv has for itself."""


def user_name(name: str) -> str:
    """A name as the user wrote it."""
    return name.removesuffix(LANE_1)
