"""Where paths meet: the parts of a value that become SSA results, and the types that hold both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilejit.dtypes import BOOL, FP32, INDEX, TASK_ID, DType
from tilejit.frontend.context import Context
from tilejit.frontend.values import Perhaps, TaskHandle, TypedConstant, describe_value, is_number, number_dtype, plain_number, same_static
from tilejit.tile_ir import dialect as d
from tilejit.types.values import BufferType, ScalarType, TileType, ValueType, join, takes_number


class Conflict(Exception):
    """Two values that no type holds; the message says why."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A part that is the same on every path."""

    value: object


@dataclass(frozen=True, slots=True)
class Leaf:
    """A part that becomes result number `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class Items:
    """A tuple or list of parts."""

    parts: tuple[Part, ...]
    kind: type


Part = Fixed | Leaf | Items


def rebuild(part: Part, results: Sequence[object]) -> object:
    """The value that `part` describes, given the results."""
    if isinstance(part, Fixed):
        return part.value
    if isinstance(part, Leaf):
        return results[part.index]
    return part.kind(rebuild(item, results) for item in part.parts)


def carries(value: object) -> bool:
    """Whether a value can differ between paths: an SSA value or a number."""
    return isinstance(value, SSAValue) or is_number(value)


def is_task(value: object) -> bool:
    """A task id, or None for no task. Source order satisfies every dependency, so one id is as good as another: none is carried."""
    return value is None or isinstance(value, TaskHandle) or (isinstance(value, SSAValue) and d.type_of(value) == ScalarType(TASK_ID))


def is_literal(value: object) -> bool:
    """A number without a dtype of its own."""
    return is_number(value) and not isinstance(value, TypedConstant)


def value_type(value: object) -> ValueType:
    """The type of an SSA value, or the default one of a number."""
    return d.type_of(value) if isinstance(value, SSAValue) else ScalarType(number_dtype(value))


def joined(a: object, b: object) -> ValueType:
    """The type that holds both values. Literals take the other side's dtype."""
    first, second = value_type(a), value_type(b)
    if isinstance(first, ScalarType) and isinstance(second, ScalarType) and first != second:
        if is_literal(a) and literal_fits(a, second.dtype):
            return second
        if is_literal(b) and literal_fits(b, first.dtype):
            return first
        if is_literal(a) and is_literal(b) and BOOL not in (first.dtype, second.dtype):
            return ScalarType(FP32)
        if _index_and_integer(first.dtype, second.dtype):
            return ScalarType(INDEX)
    found = join(first, second)
    if found is None:
        raise Conflict(f"{_shown(a)} and {_shown(b)}")
    return found


def _index_and_integer(a: DType, b: DType) -> bool:
    """INDEX with any integer gives INDEX."""
    return INDEX in (a, b) and a.is_integer and b.is_integer


def literal_fits(value: object, dtype: DType) -> bool:
    """Whether an untyped number may stand for a scalar of `dtype`."""
    return takes_number(dtype, plain_number(value))


def _shown(value: object) -> str:
    if isinstance(value, SSAValue):
        return str(d.type_of(value))
    return describe_value(value)


@dataclass(slots=True)
class Branches:
    """Values of two branches, paired part by part."""

    pairs: list[tuple[object, object]]
    types: list[ValueType]

    def pair(self, a: object, b: object, force: bool = False) -> Part:
        """How the merged value is built. `force`: even equal values become a result (unless they are buffers)."""
        if same_static(a, b) and not (force and carries(a) and not isinstance(value_type(a), BufferType)):
            return Fixed(a)
        if is_task(a) and is_task(b):
            return Fixed(a if isinstance(a, TaskHandle) else b if isinstance(b, TaskHandle) else TaskHandle("task"))
        if isinstance(a, Perhaps) or isinstance(b, Perhaps):
            (x, bound_x, reason), (y, bound_y, _) = (side if isinstance(side, Perhaps) else _certain(side, a, b) for side in (a, b))
            return Items((self.pair(x, y, force), self.pair(bound_x, bound_y), Fixed(reason)), Perhaps)
        if isinstance(a, tuple | list) and isinstance(b, tuple | list):
            if len(a) != len(b):
                raise Conflict(f"{len(a)} items and {len(b)} items")
            return Items(tuple(self.pair(x, y, force) for x, y in zip(a, b, strict=True)), type(a))
        if not (carries(a) and carries(b)):
            raise Conflict(f"{_shown(a)} and {_shown(b)}")
        for index, (x, y) in enumerate(self.pairs):
            if x is a and y is b and not force:
                return Leaf(index)
        self.types.append(joined(a, b))
        self.pairs.append((a, b))
        return Leaf(len(self.pairs) - 1)

    def side(self, ctx: Context, which: int) -> list[SSAValue]:
        """The SSA values of one branch, made in the current block."""
        return [as_operand(ctx, pair[which], type) for pair, type in zip(self.pairs, self.types, strict=True)]


def _certain(value: object, *sides: object) -> Perhaps:
    """A value that a name surely has, beside one that it may not have."""
    return Perhaps((value, True, next(side[2] for side in sides if isinstance(side, Perhaps))))


def as_operand(ctx: Context, value: object, type: ValueType) -> SSAValue:
    """`value` where `type` is expected: literals become constants of its dtype, a buffer that meets a value is copied into one."""
    if isinstance(type, ScalarType):
        return ctx.scalar(value, type.dtype)
    same = _same(value)
    if isinstance(type, TileType) and isinstance(d.type_of(same), BufferType):
        copy = ctx.builder.copy(same)
        ctx.aliases.copied(same, copy)
        return copy
    return same


def _same(value: object) -> SSAValue:
    assert isinstance(value, SSAValue)
    return value


def leaves(value: object, found: list[object]) -> Part:
    """Split a value into what a loop can carry (appended to `found`) and what is fixed."""
    if isinstance(value, tuple | list):
        return Items(tuple(leaves(item, found) for item in value), type(value))
    if carries(value) and not is_task(value):
        found.append(value)
        return Leaf(len(found) - 1)
    return Fixed(value)


def match(part: Part, value: object, found: dict[int, object]) -> None:
    """Collect the leaves of `value` by the shape of `part`."""
    if isinstance(part, Leaf):
        if not carries(value):
            raise Conflict(f"a value and {_shown(value)}")
        found[part.index] = value
    elif isinstance(part, Items) and part.kind is Perhaps:
        inner, bound, _ = part.parts
        match(inner, value[0] if isinstance(value, Perhaps) else value, found)
        match(bound, value[1] if isinstance(value, Perhaps) else True, found)
    elif isinstance(part, Items):
        if not isinstance(value, tuple | list) or len(value) != len(part.parts):
            raise Conflict(f"{len(part.parts)} items and {_shown(value)}")
        for item, inner in zip(part.parts, value, strict=True):
            match(item, inner, found)
    elif not same_static(part.value, value) and not (is_task(part.value) and is_task(value)):
        raise Conflict(f"{_shown(part.value)} and {_shown(value)}, which are compile-time values")


def widened(current: ValueType, literal: bool, value: object) -> ValueType:
    """The type of a carried leaf after its body gave it `value`; `literal`: it began as an untyped number."""
    own = value_type(value)
    if isinstance(current, ScalarType) and isinstance(own, ScalarType) and current != own:
        if is_literal(value) and literal_fits(value, current.dtype):
            return current
        if literal and (own.dtype is BOOL) == (current.dtype is BOOL) and (current.dtype is INDEX or own.dtype.is_float):
            return own
        if _index_and_integer(current.dtype, own.dtype):
            return ScalarType(INDEX)
    found = join(current, own)
    if found is None:
        raise Conflict(f"{current} and {own}")
    return found
