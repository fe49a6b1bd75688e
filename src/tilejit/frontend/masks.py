"""Comparisons of tensors and tiles where a mask is wanted.

By itself a comparison is what it has always been: 0 and 1 in the operands' dtype of tensors, packed bits of tiles. Where a mask is
combined, chosen by, counted or written into BOOL memory, the same comparison is made again as BOOL elements; what is left over is dead code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from xdsl.ir import SSAValue

from tilejit.dtypes import BOOL
from tilejit.frontend.context import Context
from tilejit.frontend.values import shaped
from tilejit.ops import public, table
from tilejit.ops.spec import OpFunction, OpSpec
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args


def is_comparison(value: object) -> bool:
    """Whether a value is what a comparison of tensors or tiles gave."""
    type = shaped(value)
    if type is None or type.dtype is BOOL or not isinstance(value, SSAValue) or not isinstance(value.owner, d.ApplyOp):
        return False
    return "cmp_type" in table()[value.owner.op].param_names


def is_mask(value: object) -> bool:
    """Whether a value says yes or no for every element."""
    type = shaped(value)
    return type is not None and (type.dtype is BOOL or is_comparison(value))


AnyValue = TypeVar("AnyValue")


def flags(ctx: Context, value: AnyValue) -> AnyValue | SSAValue:
    """A comparison as BOOL elements; everything else is itself."""
    if not is_comparison(value):
        return value
    assert isinstance(value, SSAValue) and isinstance(value.owner, d.ApplyOp)
    return ctx.builder.apply(table()["compare"], d.shaped_type(value).level, apply_args(value.owner))[0]


def prepared(ctx: Context, row: OpSpec, given: Mapping[str, object]) -> Mapping[str, object]:
    """The arguments of a row with masks in the form that it takes them in."""
    if row.facts.bitwise:
        # Of two comparisons a mask; a mask that went through memory keeps its packed bytes, which combine as they are.
        if not any(is_mask(given.get(name)) for name in row.operands) or _stays_packed(row, given):
            return given
        return {name: flags(ctx, arg) if name in row.operands else arg for name, arg in given.items()}
    if row.name == "where" and is_packed_bits(given["condition"]):  # that of tensors may be any number, so a comparison stays what it is
        return {**given, "condition": flags(ctx, given["condition"])}
    folded = given.get("input")
    if isinstance(folded, SSAValue) and is_comparison(folded) and row.takes_flags(d.shaped_type(folded)):
        return {**given, "input": flags(ctx, given["input"])}
    return given


def chooses(row: OpSpec, args: Mapping[str, object]) -> bool:
    """Whether a row that takes packed masks is given one of BOOL elements."""
    type = shaped(args.get("mask"))
    return row.facts.packed == "mask" and type is not None and type.dtype is BOOL


def chooser() -> OpFunction:
    """What chooses by a mask of BOOL elements."""
    found = public("pl", "where")
    assert found is not None
    return found


def chosen(row: OpSpec, args: Mapping[str, object]) -> list[object]:
    """The arguments of a chooser as those of `where`."""
    return [args[name] for name in row.param_names if name != "tmp"]


def is_packed_bits(value: object) -> bool:
    """Whether a value is the packed mask of a comparison of tiles."""
    type = shaped(value)
    return type is not None and type.level == "tile" and is_comparison(value)


def _stays_packed(row: OpSpec, given: Mapping[str, object]) -> bool:
    """Whether an operand is packed bytes that no comparison here made: then all are combined as bytes."""
    types = [(name, type) for name in row.operands if (type := shaped(given.get(name))) is not None]
    return any(type.dtype.is_integer and not is_comparison(given[name]) for name, type in types)
