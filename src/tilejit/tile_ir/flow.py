"""Which values may go where: into parameters, out of blocks, into memory; and how a rule that is broken is said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from xdsl.ir import Operation, SSAValue

from tilejit.dtypes import DType
from tilejit.errors import VerificationError
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ANY, ArrayType, BufferType, ScalarType, TileType, ValueType


def stores_as(value: DType, buffer: DType) -> bool:
    """Whether a store may convert: between floats, and from narrower to wider integers of the same sign."""
    if value is buffer or (value.is_float and buffer.is_float):
        return True
    return value.kind == buffer.kind and value.is_integer and value.bits <= buffer.bits


def fail(op: Operation, message: str) -> NoReturn:
    raise VerificationError(message, span=op.span if isinstance(op, d.TileOp) else None)


def rule(op: Operation, holds: object, message: str) -> None:
    if not holds:
        fail(op, message)


def flows(op: Operation, what: str, values: Sequence[SSAValue], targets: Sequence[SSAValue]) -> None:
    types, wanted = [d.type_of(value) for value in values], [d.type_of(target) for target in targets]
    rule(
        op,
        len(types) == len(wanted) and all(widens(wide, narrow) for wide, narrow in zip(wanted, types, strict=True)),
        f"{op.name}: {what} are {texts(types)}, expected {texts(wanted)}",
    )


def passes(op: Operation, args: Sequence[SSAValue], callee: d.FuncOp) -> None:
    params = [d.type_of(param) for param in callee.body.block.args]
    types = [d.type_of(arg) for arg in args]
    rule(
        op,
        len(types) == len(params) and all(passable(type, param) for type, param in zip(types, params, strict=True)),
        f"`{callee.symbol}` takes {texts(params)}, got {texts(types)}",
    )


def passable(type: ValueType, param: ValueType) -> bool:
    if isinstance(type, ScalarType | ArrayType) or isinstance(param, ScalarType | ArrayType):
        return type == param
    fits = all(not (isinstance(a, int) and isinstance(b, int)) or a == b for a, b in zip(type.shape, param.shape, strict=False))
    return type.__class__ is param.__class__ and type.dtype is param.dtype and type.rank == param.rank and fits


def widens(wide: ValueType, narrow: ValueType) -> bool:
    """Whether `wide` holds every value of `narrow`: equal but for extents and valid extents known less well, and the space."""
    if isinstance(wide, TileType) and isinstance(narrow, TileType):
        return wide.dtype is narrow.dtype and wide.level == narrow.level and covers(wide.shape, narrow.shape) and covers(wide.valid, narrow.valid)
    if isinstance(wide, BufferType) and isinstance(narrow, BufferType):
        return wide.dtype is narrow.dtype and wide.layout == narrow.layout and covers(wide.shape, narrow.shape)
    return wide == narrow


def covers(wide: Sequence[int | str], narrow: Sequence[int | str]) -> bool:
    return len(wide) == len(narrow) and all(a in (b, ANY) or (isinstance(a, str) and b == ANY) for a, b in zip(wide, narrow, strict=True))


def texts(types: Sequence[ValueType]) -> str:
    return "(" + ", ".join(str(type) for type in types) + ")"
