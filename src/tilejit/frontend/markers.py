"""Markers in expressions: constants, static statements, effects and hints."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import BlockArgument, SSAValue

from tilejit.dtypes import COMPLEX64, DType
from tilejit.errors import ArgumentError, DTypeError, ParserError, ParserSyntaxError, ParserTypeError, StaticAssertionError, did_you_mean
from tilejit.frontend import tasks
from tilejit.frontend.context import Context
from tilejit.frontend.prints import asserted_text, print_
from tilejit.frontend.scalars import constant_as
from tilejit.frontend.values import NoValue, TypedConstant, describe_value, is_number, is_static, plain_number
from tilejit.tile_ir.literal import ParameterName
from tilejit.types.enums import SplitMode
from tilejit.types.scopes import Marker


def expand(ctx: Context, marker: Marker, node: ast.Call) -> object:
    """The value of a marker used in an expression."""
    handler = _HANDLERS.get(marker.name)
    if handler is not None:
        return handler(ctx, node)
    if marker.name == "yield_":
        ctx.fail(ParserSyntaxError, "pl.yield_ needs names on its left", node, help="write `x = pl.yield_(value)`")
    if marker.name == "cond":
        ctx.fail(ParserSyntaxError, "pl.cond belongs first into the body of a pl.while_ loop", node)
    how = "for i in" if marker.name in LOOPS else "with"
    ctx.fail(ParserSyntaxError, f"pl.{marker.name} is not a value", node, help=f"write `{how} pl.{marker.name}(…):`")


LOOPS = frozenset({"range", "parallel", "unroll", "pipeline", "while_", "split_aiv"})


_SLOTS = "write pl.cross_core_slot(slot_num=…) among the optimizations"
DEPRECATED: dict[str, dict[str, str]] = {
    "split": {"slot_num": _SLOTS},
    **{name: {"split": "write optimizations=[pl.split(…)]", "optimization": "write optimizations=[…]", "slot_num": _SLOTS} for name in ("at", "spmd")},
    **{name: dict.fromkeys(("chunk", "chunk_policy"), "it changes nothing, leave it out") for name in ("range", "parallel", "unroll", "pipeline")},
}
"""Options of earlier versions of the language: taken, with a warning that says what to write."""
_WARNED: dict[str | tuple[str, type[Warning], int], int] = {}


def arguments(ctx: Context, marker: str, node: ast.Call, names: Sequence[str], required: int = 0) -> dict[str, object]:
    """Arguments of a marker by name; `names` in positional order."""
    if len(node.args) > len(names):
        ctx.fail(ArgumentError, f"pl.{marker} takes {len(names)} arguments, got {len(node.args)}", node, help=f"the parameters are ({', '.join(names)})")
    out = {name: ctx.value(item) for name, item in zip(names, node.args, strict=False)}
    old = DEPRECATED.get(marker, {})
    for keyword in node.keywords:
        if keyword.arg in old:
            span = ctx.span(node)
            message = f"`{keyword.arg}` of pl.{marker} is deprecated: {old[keyword.arg]}"
            warnings.warn_explicit(message, DeprecationWarning, span.filename, span.line, registry=_WARNED)
        elif keyword.arg is None or keyword.arg not in names:
            help = did_you_mean(keyword.arg or "", names) or f"the parameters are ({', '.join(names)})"
            ctx.fail(ArgumentError, f"pl.{marker} has no parameter `{keyword.arg}`", keyword.value, help=help)
        if keyword.arg in out:
            ctx.fail(ArgumentError, f"pl.{marker} got `{keyword.arg}` twice", keyword.value)
        out[keyword.arg] = ctx.keyword(keyword)
    for name in names[:required]:
        if name not in out:
            ctx.fail(ArgumentError, f"pl.{marker} needs `{name}`", node, help=f"the parameters are ({', '.join(names)})")
    return out


def _const(ctx: Context, node: ast.Call) -> object:
    found = arguments(ctx, "const", node, ("value", "dtype"), required=2)
    value, dtype = found["value"], found["dtype"]
    if not is_number(value):
        raise ParserTypeError(f"pl.const takes a compile-time number, got {describe_value(value)}", help="pl.cast converts run-time scalars")
    if not isinstance(dtype, DType):
        raise DTypeError(f"pl.const takes a data type such as pl.INT32, got {describe_value(dtype)}")
    if dtype is COMPLEX64:
        return ctx.scalar(value, dtype)
    return TypedConstant(constant_as(plain_number(value), dtype), dtype)


def _static_print(ctx: Context, node: ast.Call) -> object:
    shown = [ctx.value(item) for item in node.args]
    ctx.prints.append(" ".join(item if isinstance(item, str) else describe_value(item) for item in shown))
    return NoValue("pl.static_print")


def _static_assert(ctx: Context, node: ast.Call) -> object:
    found = arguments(ctx, "static_assert", node, ("condition", "message"), required=1)
    condition, message = found["condition"], found.get("message", "")
    if not is_static(condition):
        ctx.fail(
            ParserError, f"pl.static_assert needs a compile-time condition, got {describe_value(condition)}", node, help="pl.device_assert checks at run time"
        )
    if not condition:
        ctx.fail(StaticAssertionError, f"static assertion failed{': ' + str(message) if message else ''}", node)
    return NoValue("pl.static_assert")


def _breakpoint(ctx: Context, node: ast.Call) -> object:
    arguments(ctx, "breakpoint", node, ())
    ctx.builder.effect("breakpoint", [])
    return NoValue("pl.breakpoint")


def _device_assert(ctx: Context, node: ast.Call) -> object:
    found = arguments(ctx, "device_assert", node, ("condition", "message"), required=1)
    message = found.get("message", "")
    if not isinstance(message, str):
        raise ParserTypeError(f"the message must be a string, got {describe_value(message)}")
    condition = ctx.condition(found["condition"], "the condition of pl.device_assert")
    ctx.builder.effect("device_assert", [ctx.scalar(condition)], {"message": asserted_text(message)})
    return NoValue("pl.device_assert")


def _func_attr(ctx: Context, node: ast.Call) -> object:
    if ctx.frame.site is None and (node.lineno, node.col_offset) not in ctx.opening:
        ctx.fail(ParserSyntaxError, "pl.func_attr comes first in a function", node, help="move it up, before all other statements")
    found = arguments(ctx, "func_attr", node, ("attributes",), required=1)["attributes"]
    if not isinstance(found, dict):
        raise ParserTypeError(f"pl.func_attr takes a dict, got {describe_value(found)}")
    literals = [given for given in (*node.args, *(keyword.value for keyword in node.keywords)) if isinstance(given, ast.Dict)]
    written = [key.value for literal in literals for key in literal.keys if isinstance(key, ast.Constant)]
    for name, value in found.items():
        if not isinstance(name, str):
            raise ParserTypeError(f"the keys of pl.func_attr are strings, got {name!r}")
        if written.count(name) > 1:
            raise ParserSyntaxError(f"function attribute `{name}` is given twice")
        if name in ctx.attributes:
            raise ParserSyntaxError(f"function attribute `{name}` is given twice")
        ctx.attributes[name] = _attribute(ctx, value)
    return NoValue("pl.func_attr")


def _attribute(ctx: Context, value: object) -> object:
    """The value of a function attribute: compile-time values, and parameters by their bare names."""
    if isinstance(value, list | tuple):
        return tuple(_attribute(ctx, item) for item in value)
    for name, parameter in ctx.scope.items():
        if parameter.value is value and isinstance(value, BlockArgument):
            return ParameterName(name)
    if isinstance(value, SSAValue):
        raise ParserTypeError(f"a function attribute is a compile-time value or a parameter, got {describe_value(value)}")
    return value


@dataclass(frozen=True, slots=True)
class Hint:
    """An optimisation hint of `pl.at`."""

    name: str
    value: object

    def __repr__(self) -> str:
        return f"pl.{self.name}(…)"


def _split(ctx: Context, node: ast.Call) -> object:
    found = arguments(ctx, "split", node, ("mode",), required=1)
    return old_hints(found["mode"], found.get("slot_num"))


def old_hints(mode: object, slots: object) -> tuple[Hint, ...]:
    """What `pl.split(mode, slot_num=slots)` and the options `split` and `slot_num` of a region ask for."""
    if mode is not None and not isinstance(mode, SplitMode):
        raise ParserTypeError(f"pl.split takes a pl.SplitMode, got {describe_value(mode)}")
    hints = (("split", mode), ("cross_core_slot", slots))
    return tuple(Hint(name, value) for name, value in hints if value is not None)


def _cross_core_slot(ctx: Context, node: ast.Call) -> object:
    return Hint("cross_core_slot", arguments(ctx, "cross_core_slot", node, ("slot_num",), required=1)["slot_num"])


_HANDLERS: dict[str, Callable[[Context, ast.Call], object]] = {
    "const": _const,
    "static_print": _static_print,
    "static_assert": _static_assert,
    "print": print_,
    "breakpoint": _breakpoint,
    "device_assert": _device_assert,
    "func_attr": _func_attr,
    "split": _split,
    "cross_core_slot": _cross_core_slot,
    "submit": tasks.submit,
    "spmd_submit": tasks.spmd_submit,
}
