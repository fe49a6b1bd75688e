"""Markers in expressions: constants, static statements, effects, hints and submitted tasks."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from xdsl.ir import Block, SSAValue

from tilejit.dtypes import INDEX, DType
from tilejit.errors import ArgumentError, DTypeError, ParserError, ParserSyntaxError, ParserTypeError, UnsupportedFeatureError, did_you_mean
from tilejit.frontend import functions
from tilejit.frontend.context import Context, fits
from tilejit.frontend.values import MethodReference, NoValue, TaskHandle, TypedConstant, describe_value, is_number, is_static, plain_number
from tilejit.tile_ir import dialect as d
from tilejit.types.enums import SplitMode
from tilejit.types.scopes import Marker
from tilejit.types.values import ScalarType


class TaskResult(tuple[object, ...]):
    """The flat tuple of what `pl.submit` gives: results, then the task id."""

    @property
    def nested(self) -> tuple[object, object]:
        """(result, task id), the results as one tuple where there are several."""
        results = self[:-1]
        return (results[0] if len(results) == 1 else results, self[-1])


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


def arguments(ctx: Context, marker: str, node: ast.Call, names: Sequence[str], required: int = 0) -> dict[str, object]:
    """Arguments of a marker by name; `names` in positional order."""
    if len(node.args) > len(names):
        ctx.fail(ArgumentError, f"pl.{marker} takes {len(names)} arguments, got {len(node.args)}", node, help=f"the parameters are ({', '.join(names)})")
    out = {name: ctx.value(item) for name, item in zip(names, node.args, strict=False)}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg not in names:
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
    return TypedConstant(fits(plain_number(value), dtype), dtype)


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
        ctx.fail(ParserError, f"static assertion failed{': ' + str(message) if message else ''}", node)
    return NoValue("pl.static_assert")


def _print(ctx: Context, node: ast.Call) -> object:
    parts: list[object] = []
    operands: list[SSAValue] = []
    for item in node.args:
        value = ctx.value(item)
        if isinstance(value, SSAValue):
            operands.append(value)
            parts.append(None)
        else:
            parts.append(value if isinstance(value, str) else describe_value(value))
    ctx.builder.effect("print", operands, {"parts": tuple(parts)})
    return NoValue("pl.print")


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
    ctx.builder.effect("device_assert", [ctx.scalar(condition)], {"message": message})
    return NoValue("pl.device_assert")


def _func_attr(ctx: Context, node: ast.Call) -> object:
    found = arguments(ctx, "func_attr", node, ("attributes",), required=1)["attributes"]
    if not isinstance(found, dict):
        raise ParserTypeError(f"pl.func_attr takes a dict, got {describe_value(found)}")
    for name, value in found.items():
        if not isinstance(name, str):
            raise ParserTypeError(f"the keys of pl.func_attr are strings, got {name!r}")
        if name in ctx.attributes:
            raise ParserSyntaxError(f"function attribute `{name}` is given twice")
        ctx.attributes[name] = tuple(value) if isinstance(value, list) else value
    return NoValue("pl.func_attr")


@dataclass(frozen=True, slots=True)
class Hint:
    """An optimisation hint of `pl.at`."""

    name: str
    value: object


def _split(ctx: Context, node: ast.Call) -> object:
    mode = arguments(ctx, "split", node, ("mode",), required=1)["mode"]
    if not isinstance(mode, SplitMode):
        raise ParserTypeError(f"pl.split takes a pl.SplitMode, got {describe_value(mode)}")
    return Hint("split", mode)


def _cross_core_slot(ctx: Context, node: ast.Call) -> object:
    return Hint("cross_core_slot", arguments(ctx, "cross_core_slot", node, ("slot_num",), required=1)["slot_num"])


# tasks ----------------------------------------------------------------------------------------------------------------

_TASK_KEYWORDS = ("deps", "dumps", "allow_early_resolve", "predicate")


def _submit(ctx: Context, node: ast.Call) -> object:
    kernel, options = _task(ctx, "submit", node, _TASK_KEYWORDS)
    return guarded(ctx, options.get("predicate"), lambda: _launched(ctx, kernel, node))


Launched = TypeVar("Launched")


def guarded(ctx: Context, predicate: object, launch: Callable[[], Launched]) -> Launched:
    """What `launch` starts is skipped at run time when the predicate is false."""
    if predicate is None:
        return launch()
    flag = ctx.condition(predicate, "the predicate")
    if isinstance(flag, bool):
        if flag:
            return launch()
        raise UnsupportedFeatureError("a predicate that is false while compiling", help="leave the task out")
    then, orelse = Block(), Block()
    with ctx.builder.at(then):
        result = launch()
        ctx.builder.yield_([])
    with ctx.builder.at(orelse):
        ctx.builder.yield_([])
    ctx.builder.if_(flag, then, orelse, [])
    return result


def _spmd_submit(ctx: Context, node: ast.Call) -> object:
    kernel, options = _task(ctx, "spmd_submit", node, (*_TASK_KEYWORDS, "core_num", "sync_start"))
    if "core_num" not in options:
        ctx.fail(ArgumentError, "pl.spmd_submit needs `core_num`", node)
    blocks = ctx.index(options["core_num"], "core_num")

    def launch() -> TaskResult:
        block = Block(arg_types=d.ir_types([ScalarType(INDEX)]))
        with ctx.builder.at(block):
            result = _launched(ctx, kernel, node)
            ctx.builder.yield_([])
        ctx.builder.region(block, [], blocks, "spmd")
        return result

    return guarded(ctx, options.get("predicate"), launch)


def _task(ctx: Context, marker: str, node: ast.Call, keywords: Sequence[str]) -> tuple[MethodReference, Mapping[str, object]]:
    if not node.args:
        ctx.fail(ArgumentError, f"pl.{marker} needs a kernel", node, help=f"write pl.{marker}(self.kernel, …)")
    kernel = ctx.value(node.args[0])
    if not isinstance(kernel, MethodReference):
        ctx.fail(ParserTypeError, f"pl.{marker} takes a function of the program, got {describe_value(kernel)}", node.args[0], help="write self.kernel")
    options: dict[str, object] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg not in keywords:
            ctx.fail(ArgumentError, f"pl.{marker} has no parameter `{keyword.arg}`", keyword.value, help=did_you_mean(keyword.arg or "", keywords))
        options[keyword.arg] = ctx.keyword(keyword)
    return kernel, options


def _launched(ctx: Context, kernel: MethodReference, node: ast.Call) -> TaskResult:
    call = ast.copy_location(ast.Call(node.args[0], node.args[1:], []), node)
    args = [ctx.value(item) for item in node.args[1:]]
    result = functions.call_method(ctx, kernel.name, args, {}, call, allocate=True)
    ctx.tasks += 1
    handle = TaskHandle(f"task{ctx.tasks}")
    if isinstance(result, NoValue):
        return TaskResult((handle,))
    return TaskResult((*result, handle) if isinstance(result, tuple) else (result, handle))


_HANDLERS: dict[str, Callable[[Context, ast.Call], object]] = {
    "const": _const,
    "static_print": _static_print,
    "static_assert": _static_assert,
    "print": _print,
    "breakpoint": _breakpoint,
    "device_assert": _device_assert,
    "func_attr": _func_attr,
    "split": _split,
    "cross_core_slot": _cross_core_slot,
    "submit": _submit,
    "spmd_submit": _spmd_submit,
}
