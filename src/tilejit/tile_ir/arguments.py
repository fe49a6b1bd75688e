"""The arguments of a table op: gathered into operands and constants, refused where they are masks, named in messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.ir import BlockArgument, SSAValue

from tilejit.errors import DTypeError
from tilejit.ops.spec import OpSpec, ParamKind
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.names import name_of

ApplyArg = SSAValue | Sequence[SSAValue] | object
"""An operand, a list of scalar operands, or a compile-time value."""


def gathered(row: OpSpec, args: Mapping[str, ApplyArg]) -> tuple[list[SSAValue], tuple[tuple[str, int], ...], dict[str, object]]:
    """Operands of a row in canonical order, how many each parameter has, and its compile-time arguments."""
    operands: list[SSAValue] = []
    groups: list[tuple[str, int]] = []
    statics: dict[str, object] = {}
    for param in row.params:
        arg = args.get(param.name, param.default)
        if param.kind is ParamKind.Static:
            statics[param.name] = arg
        elif isinstance(arg, SSAValue):
            groups.append((param.name, -1))
            operands.append(arg)
        elif arg is not None and not isinstance(arg, str | int | float):
            items = values_of(arg)
            groups.append((param.name, len(items)))
            operands += items
    return operands, tuple(groups), statics


_NUMERIC = frozenset({"elementwise", "part", "reduction", "expand", "matmul", "mx"})


def refuse_masks(row: OpSpec, args: Mapping[str, ApplyArg]) -> None:
    """A comparison of tiles gives one bit per column: its bytes are no numbers."""
    if row.family not in _NUMERIC or row.facts.bitwise:
        return
    for name, arg in args.items():
        owner = arg.owner if isinstance(arg, SSAValue) else None
        if isinstance(owner, d.ApplyOp) and owner.op == "cmp_mask" and row.param(name).kind is not ParamKind.Scratch:
            raise DTypeError(f"{row.name} takes numbers as `{name}`, got a mask of packed bits", help="select by it: pl.sel(mask, a, b, tmp)")


def value_of(arg: object) -> SSAValue:
    """An argument that is known to be an operand."""
    assert isinstance(arg, SSAValue), arg
    return arg


def values_of(arg: object) -> list[SSAValue]:
    """An argument that is known to be several operands."""
    return [value_of(item) for item in cast("Sequence[object]", arg)]


def in_user_names(hint: str | None, args: Mapping[str, ApplyArg]) -> str | None:
    """A rule's advice `pl.cast(lhs, …)` with the user's name for the parameter."""
    for name, arg in args.items():
        if hint is not None and isinstance(arg, SSAValue):
            hint = hint.replace(f"pl.cast({name},", f"pl.cast({_user_name(arg) or '…'},")
    return hint


def _user_name(value: SSAValue) -> str | None:
    if isinstance(value, BlockArgument):
        return name_of(value)
    return value.owner.hint if isinstance(value.owner, d.TileOp) else None
