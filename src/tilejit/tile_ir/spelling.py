"""How an op of the table is written as a call: which public name, which arguments by position, which by keyword."""

from __future__ import annotations

import enum
import inspect
import math
from collections.abc import Callable, Mapping

from xdsl.ir import SSAValue

from tilejit import ops
from tilejit.dtypes import DType
from tilejit.errors import InternalError
from tilejit.ops.binding import canonical_names, formed
from tilejit.ops.spec import OpSpec, ParamKind, Spelling
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args
from tilejit.tile_ir.literal import ParameterName, write_literal
from tilejit.tile_ir.verify import level_of
from tilejit.types.enums import MaskPattern, MemorySpace
from tilejit.types.values import ScalarType

Show = Callable[[SSAValue], str]
"""Text of an operand."""


def call_text(op: d.ApplyOp | d.EffectOp, prefix: str, show: Show) -> str:
    """`pl.row_sum(x, tmp)`: a call that binds to the same row with the same arguments."""
    row, args = ops.table()[op.op], apply_args(op)
    spelling = choose_spelling(row, level_of(op), args)
    if spelling is None:
        raise InternalError(f"{op.op} has no public name that takes its arguments", span=op.span)
    spelling = formed(spelling, row)
    names = canonical_names(spelling, row)
    shown: list[str] = []
    by_position = True
    for parameter in spelling.signature.parameters.values():
        name = names[parameter.name]
        if name not in args or _is_default(row, name, args[name]):
            by_position = by_position and name in args and parameter.default is inspect.Parameter.empty
            if parameter.default is not inspect.Parameter.empty or name not in args:
                continue
        text = argument_text(args[name], prefix, show)
        keyword = (
            not by_position
            or parameter.kind is inspect.Parameter.KEYWORD_ONLY
            or (parameter.default is not inspect.Parameter.empty and row.param(name).kind is ParamKind.Static)
        )
        shown.append(f"{parameter.name}={text}" if keyword else text)
        by_position = by_position and not keyword
    space = prefix if spelling.namespace == "pl" else spelling.namespace if spelling.namespace.startswith("pld") else f"{prefix}.{spelling.namespace}"
    return f"{space}.{spelling.name}({', '.join(shown)})"


def choose_spelling(row: OpSpec, level: str, args: Mapping[str, object]) -> Spelling | None:
    """The public name to use: a `pl` name where it means this row, else the one of the level's namespace."""
    shaped = any(isinstance(arg, SSAValue) and not isinstance(d.type_of(arg), ScalarType) for arg in args.values())
    best: tuple[int, Spelling] | None = None
    for spelling in row.spellings:
        cost = _cost(spelling, level, shaped)
        if cost is None or not _takes(spelling, row, args) or _means(spelling, level) is not row:
            continue
        if best is None or cost < best[0]:
            best = cost, spelling
    return best[1] if best is not None else None


def _cost(spelling: Spelling, level: str, shaped: bool) -> int | None:
    cost = 4 * bool(spelling.scalar_only)
    if spelling.namespace == "pl":
        if spelling.same_as is not None:
            return cost + 1 if spelling.same_as == level or level == "scalar" or spelling.same_as not in ("tensor", "tile") else None
        return cost if shaped or level == "scalar" or spelling.namespace == level else None
    if spelling.namespace in ("tensor", "tile") and level != "scalar" and spelling.namespace != level:
        return None
    return cost + 2


def _takes(spelling: Spelling, row: OpSpec, args: Mapping[str, object]) -> bool:
    for name in spelling.scalar_only:
        arg = args.get(name)
        if isinstance(arg, SSAValue) and not isinstance(d.type_of(arg), ScalarType):
            return False
    known = set(canonical_names(formed(spelling, row), row).values())
    return all(name in known or _is_default(row, name, arg) for name, arg in args.items())


def _means(spelling: Spelling, level: str) -> OpSpec | None:
    """The row to which a call of this public name binds at `level`."""
    function = ops.public(spelling.namespace, spelling.name)
    assert function is not None
    return next((row for _, row in function.rows if level in row.levels or not row.levels), None)


def _is_default(row: OpSpec, name: str, arg: object) -> bool:
    default = row.param(name).default
    if isinstance(arg, SSAValue | list) or default is inspect.Parameter.empty:
        return False
    return write_literal(arg) == write_literal(default)


def argument_text(arg: object, prefix: str, show: Show) -> str:
    if isinstance(arg, SSAValue):
        return show(arg)
    if isinstance(arg, list):
        return "[" + ", ".join(show(item) for item in arg) + "]"
    return static_text(arg, prefix)


def static_text(value: object, prefix: str) -> str:
    """A compile-time value as Python source."""
    if isinstance(value, DType):
        return f"{prefix}.{value.name}"
    if isinstance(value, ParameterName):
        return str(value)
    if isinstance(value, MemorySpace):
        return f"{prefix}.Mem.{value.name}"
    if isinstance(value, MaskPattern):
        return f"{prefix}.tile.MaskPattern.{value.name}"
    if isinstance(value, enum.Enum):
        return f"{prefix}.{type(value).__name__}.{value.name}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, tuple | list):
        return "[" + ", ".join(static_text(item, prefix) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {static_text(item, prefix)}" for key, item in value.items()) + "}"
    return repr(value)
