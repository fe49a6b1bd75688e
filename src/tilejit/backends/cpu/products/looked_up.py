"""Products of few rows whose right operand is a function of bytes, such as weights of 4 bits: it is looked up as they are read, and never made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from xdsl.ir import Operation, SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.lanes.bytes import ORDER, index_shift, together
from tilejit.backends.cpu.llvm.host import host
from tilejit.backends.cpu.products.elements import Elements, dot_for
from tilejit.dtypes import BF16, INT8, UINT8
from tilejit.ops import table
from tilejit.ops.evaluate import evaluate, whole
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, constant_of
from tilejit.types.values import BufferType, ShapedType

_LARGEST = 1 << 18
"""Numbers of an operand that one thread reads; a larger one is made, by as many as there are."""


class LookedUp(NamedTuple):
    """A value that is a function of bytes in memory."""

    source: SSAValue
    numbers: tuple[int, ...]
    """What each of the 256 bytes stands for."""

    @property
    def kind(self) -> Elements:
        """The products that it is the right operand of."""
        return Elements(BF16, INT8, dot_for(host(), BF16), self.numbers)


def looked_up(f: FunctionWriter, op: d.ApplyOp | d.GroupOp) -> LookedUp | None:
    """What an op or a group computes, if it is a function of bytes that only a product of BF16 needs, and this processor looks up words of it at once."""
    if len(op.results) != 1 or f.e.module.precise or together() != len(ORDER) or dot_for(host(), BF16) is None:
        return None
    uses = list(op.results[0].uses)
    if len(uses) != 1 or not _multiplies(uses[0].operation, op.results[0]) or not _follows(op, uses[0].operation):
        return None
    inside = op.body.block if isinstance(op, d.GroupOp) else None
    members = [op] if inside is None else [inner for inner in inside.ops if not isinstance(inner, d.ConstOp | d.YieldOp)]
    inner = set[SSAValue]().union(*(member.results for member in members))
    operands = {operand for member in members for operand in member.operands}
    sources = [value for value in operands - inner if isinstance(d.type_of(value), ShapedType)]
    if len(sources) != 1 or not _is_matrix_of_bytes(sources[0]) or not _is_matrix_of_bytes(op.results[0]):
        return None
    numbers = _numbers(members, sources[0], op.results[0] if inside is None else d.end_of(inside, d.YieldOp).values[0])
    return LookedUp(sources[0], numbers) if numbers is not None and index_shift(numbers) is not None else None


def _is_matrix_of_bytes(value: SSAValue) -> bool:
    type = d.type_of(value)
    return isinstance(type, ShapedType) and type.dtype in (INT8, UINT8) and all(isinstance(size, int) for size in type.shape) and len(type.shape) == 2


def _multiplies(user: Operation, value: SSAValue) -> bool:
    if not isinstance(user, d.ApplyOp) or user.op != "matmul":
        return False
    args = apply_args(user)
    left = args["lhs"]
    if not isinstance(left, SSAValue) or args["rhs"] is not value or left is value:
        return False
    type, right = d.shaped_type(left), d.shaped_type(value)
    if len(right.shape) != 2:  # a vector, or a stack of matrices
        return False
    rows, columns = right.shape
    small = isinstance(rows, int) and isinstance(columns, int) and rows * columns <= _LARGEST
    return type.dtype is BF16 and len(type.shape) == 2 and bool(args.get("b_trans")) and not args.get("a_trans") and small


def _follows(op: Operation, user: Operation) -> bool:
    """Whether nothing between the two could write what the group reads."""
    between = op.next_op
    while between is not None and between is not user:
        scalar = isinstance(between, d.ApplyOp) and not any(isinstance(d.type_of(result), ShapedType) for result in between.results)
        if not scalar and not isinstance(between, d.ConstOp | d.WindowOp | d.DimOp):
            return False
        between = between.next_op
    return between is user


def _numbers(members: Sequence[Operation], source: SSAValue, result: SSAValue) -> tuple[int, ...] | None:
    """What the members make of every byte, as the reference says; None: they need more than it."""
    if not isinstance(d.type_of(source), BufferType):
        return None
    known: dict[SSAValue, Any] = {source: whole(np.arange(256, dtype=np.uint8).view(d.shaped_type(source).dtype.numpy))}
    for member in members:
        if not isinstance(member, d.ApplyOp) or table()[member.op].family != "elementwise":
            return None
        row, args = table()[member.op], dict(apply_args(member))
        for name, value in args.items():
            if isinstance(value, SSAValue):
                constant = constant_of(value)
                if value not in known and constant is None:
                    return None
                args[name] = known[value] if constant is None else np.asarray(constant, d.type_of(value).dtype.numpy)[()]
        known[member.results[0]] = evaluate(row, args, tuple(d.type_of(item) for item in member.results))[0]
    return tuple(int(number) for number in known[result].data)
