"""`for` and `while` statements: which loop of the language is meant, its bounds, and how break ends it."""

from __future__ import annotations

import ast
from typing import NoReturn

from xdsl.ir import SSAValue

from tilejit.errors import ArgumentError, ParserSyntaxError, ParserTypeError, UnsupportedFeatureError
from tilejit.frontend import carried, lanes, regions
from tilejit.frontend.context import Context
from tilejit.frontend.desugar import break_flag
from tilejit.frontend.markers import arguments
from tilejit.frontend.refusals import plain_range
from tilejit.frontend.values import Binding, describe_value, static_integer
from tilejit.ops import public, table
from tilejit.types.scopes import Marker

_RANGE = ("start", "stop", "step")
_COUNTED = {"range": (*_RANGE, "init_values"), "parallel": (*_RANGE, "init_values"), "pipeline": (*_RANGE, "stage", "init_values")}
_MOST_COPIES = 1 << 16
"""Iterations that pl.unroll may expand."""


def for_(ctx: Context, node: ast.For) -> None:
    """A `for` statement."""
    if node.orelse:
        ctx.fail(
            UnsupportedFeatureError, "a loop cannot have `else`", node.orelse[0], help="put the statements after the loop; with a break, set a flag and test it"
        )
    marker = ctx.value(node.iter.func) if isinstance(node.iter, ast.Call) else None
    if not isinstance(marker, Marker):
        _not_a_loop(ctx, node, marker)
    assert isinstance(node.iter, ast.Call)
    if marker.name in _COUNTED:
        _counted(ctx, node, marker.name, node.iter)
    elif marker.name == "unroll":
        _unrolled(ctx, node, node.iter)
    elif marker.name == "while_":
        _while_form(ctx, node, node.iter)
    elif marker.name == "spmd":
        regions.blocks(ctx, node, node.iter)
    elif marker.name == "split_aiv":
        lanes.lanes(ctx, node, node.iter)
    else:
        ctx.fail(
            ParserSyntaxError, f"pl.{marker.name} is not a loop", node.iter, help="loops are pl.range, pl.parallel, pl.unroll, pl.pipeline, pl.while_, pl.spmd"
        )


def _not_a_loop(ctx: Context, node: ast.For, function: object) -> NoReturn:
    text = ast.unparse(node.iter)
    if function is range:
        assert isinstance(node.iter, ast.Call)
        raise ctx.locate(plain_range(node.iter), node.iter)
    ctx.fail(
        UnsupportedFeatureError, f"cannot loop over `{text}`", node.iter, help="loops are pl.range, pl.parallel, pl.unroll, pl.pipeline, pl.while_, pl.spmd"
    )


def _bounds(ctx: Context, marker: str, found: dict[str, object], node: ast.Call) -> tuple[object, object, object]:
    start, stop, step = found.get("start"), found.get("stop"), found.get("step")
    if start is None and stop is None:
        ctx.fail(ArgumentError, f"pl.{marker} needs at least a stop", node, help=f"write pl.{marker}(stop) or pl.{marker}(start, stop, step)")
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    if static_integer(step) == 0:
        ctx.fail(ArgumentError, f"the step of pl.{marker} is 0", node, help="use a positive or negative step")
    return 0 if start is None else start, stop, step


def _index_name(ctx: Context, target: ast.expr) -> str:
    if not isinstance(target, ast.Name):
        ctx.fail(ParserSyntaxError, "the loop variable must be a name", target, help="carried values need init_values=(…)")
    return target.id


def _names(ctx: Context, target: ast.expr) -> list[str]:
    items = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    out = [item.id for item in items if isinstance(item, ast.Name)]
    if len(out) != len(items):
        ctx.fail(ParserSyntaxError, "carried values are plain names", target)
    return out


def _explicit(ctx: Context, target: ast.expr, values: object, node: ast.AST) -> list[tuple[str, object]]:
    """Carried names with their initial values."""
    names = _names(ctx, target)
    if not isinstance(values, tuple | list):
        ctx.fail(ParserTypeError, f"init_values must be a tuple, got {describe_value(values)}", node, help="write init_values=(x,)")
    if len(values) != len(names):
        ctx.fail(ParserSyntaxError, f"{len(values)} init_values for {len(names)} carried names", target)
    return list(zip(names, values, strict=True))


def _counted(ctx: Context, node: ast.For, kind: str, call: ast.Call) -> None:
    found = arguments(ctx, kind, call, _COUNTED[kind])
    start, stop, step = _bounds(ctx, kind, found, call)
    stage = static_integer(found["stage"]) if "stage" in found else None
    if kind == "pipeline" and (stage is None or stage < 1):
        ctx.fail(ArgumentError, "pl.pipeline needs a compile-time `stage` of at least 1", call, help="write pl.pipeline(n, stage=2)")
    explicit: list[tuple[str, object]] = []
    target = node.target
    if found.get("init_values") is not None:
        if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
            ctx.fail(
                ParserSyntaxError,
                "a loop with init_values has an index and carried names",
                target,
                help="write `for i, (a, b) in pl.range(…, init_values=(a0, b0)):`",
            )
        explicit = _explicit(ctx, target.elts[1], found["init_values"], call)
        target = target.elts[0]
    name = _index_name(ctx, target)
    lower, upper, stride = (ctx.index(value, "a loop bound") for value in (start, stop, step))
    if break_flag(node) is not None:
        _counted_with_break(ctx, node, name, lower, upper, stride)
    else:
        carried.counted(ctx, node, (lower, upper, stride), name, explicit, kind, stage)


def _unrolled(ctx: Context, node: ast.For, call: ast.Call) -> None:
    if any(keyword.arg == "init_values" for keyword in call.keywords):
        ctx.fail(ArgumentError, "pl.unroll takes no init_values", call, help="rebind names in the body")
    bounds = _bounds(ctx, "unroll", arguments(ctx, "unroll", call, _RANGE), call)
    known = [static_integer(value) for value in bounds]
    for value, number in zip(bounds, known, strict=True):
        if number is None:
            ctx.fail(ParserTypeError, f"pl.unroll needs compile-time bounds, got {describe_value(value)}", call, help="pl.range loops at run time")
    start, stop, step = (number for number in known if number is not None)
    iterations = range(start, stop, step)
    if len(iterations) > _MOST_COPIES:
        ctx.fail(ParserTypeError, f"pl.unroll would expand {len(iterations)} iterations", call, help="use pl.range")
    name = _index_name(ctx, node.target)
    live = {*ctx.live, *ctx.analysis.block(node.body).reads}
    outer, ctx.in_loop = ctx.in_loop, "unroll"
    outer_live = ctx.live
    ctx.yields.append([])
    for index in iterations:
        ctx.scope[name] = Binding(index, ctx.span(node.target))
        ctx.run(node.body, live)
    records = ctx.yields.pop()
    ctx.live, ctx.in_loop = outer_live, outer
    if records:
        ctx.fail(ParserSyntaxError, "pl.yield_ has no meaning in pl.unroll", records[0].node, help="rebind the names instead")


# conditions -----------------------------------------------------------------------------------------------------------


def while_(ctx: Context, node: ast.While) -> None:
    """A `while` statement."""
    if node.orelse:
        ctx.fail(
            UnsupportedFeatureError, "a loop cannot have `else`", node.orelse[0], help="put the statements after the loop; with a break, set a flag and test it"
        )
    flag = break_flag(node)

    def test() -> SSAValue:
        condition = ctx.test(node.test, "the condition of a `while`")
        if condition is True and flag is None:
            ctx.fail(ParserTypeError, "this loop never ends", node, help="use `break`, or a condition that the body changes")
        return _and_not(ctx, condition, flag)

    reads = _reads(ctx, node.test)
    carried.conditional(ctx, node, node.body, [], test, [*reads, *([flag] if flag else [])], flag=flag)


def _reads(ctx: Context, test: ast.expr) -> list[str]:
    return list(ctx.analysis.statement(ast.copy_location(ast.Expr(test), test)).reads)


def _and_not(ctx: Context, condition: SSAValue | bool, flag: str | None) -> SSAValue:
    """`condition and not flag`."""
    if flag is None:
        return ctx.scalar(condition)
    goes_on = ctx.scalar_op("not_", ctx.scope[flag].value)
    if condition is True:
        return goes_on
    return ctx.scalar_op("and_", condition, goes_on)


def _while_form(ctx: Context, node: ast.For, call: ast.Call) -> None:
    found = arguments(ctx, "while_", call, ("init_values",), required=1)
    explicit = _explicit(ctx, node.target, found["init_values"], call)
    first = node.body[0]
    function = ctx.value(first.value.func) if isinstance(first, ast.Expr) and isinstance(first.value, ast.Call) else None
    if not isinstance(function, Marker) or function.name != "cond":
        ctx.fail(ParserSyntaxError, "the body of pl.while_ begins with pl.cond(condition)", first)
    assert isinstance(first, ast.Expr) and isinstance(first.value, ast.Call)
    if len(first.value.args) != 1:
        ctx.fail(ArgumentError, "pl.cond takes one condition", first)
    condition_node = first.value.args[0]

    def test() -> SSAValue:
        return ctx.scalar(ctx.test(condition_node, "the condition of pl.cond"))

    carried.conditional(ctx, node, node.body[1:], explicit, test, _reads(ctx, condition_node))


def _counted_with_break(ctx: Context, node: ast.For, name: str, lower: SSAValue, upper: SSAValue, step: SSAValue) -> None:
    """A counted loop that may end early: a while loop that carries its counter."""
    place = f"{node.lineno}_{node.col_offset}"
    counter, stride = f"$counter_{place}", f"$step_{place}"
    ctx.scope[stride] = Binding(step, ctx.span(node))
    ahead = ast.copy_location(ast.BinOp(_next_start(ctx, node, counter, upper, step), ast.Add(), _load(stride, node)), node)
    body = [_bind_node(name, _load(counter, node), node), *node.body, _bind_node(counter, ahead, node)]
    flag = break_flag(node)

    def test() -> SSAValue:
        return _and_not(ctx, _more(ctx, ctx.scope[counter].value, upper, step), flag)

    carried.conditional(ctx, node, body, [], test, [counter, *([flag] if flag else [])], hidden=[(counter, lower)], flag=flag)


def _next_start(ctx: Context, node: ast.For, counter: str, upper: SSAValue, step: SSAValue) -> ast.expr:
    """What the step is added to: the counter, held back where the sum could leave 64 bits instead of passing the end."""
    known, end = static_integer(step), static_integer(upper)
    if known is not None and (abs(known) == 1 or (end is not None and -(2**63) <= end + known < 2**63)):
        return _load(counter, node)

    def bound(word: str, value: object) -> ast.expr:
        name = f"${word}_{node.lineno}_{node.col_offset}"
        ctx.scope[name] = Binding(value, ctx.span(node))
        return _load(name, node)

    def call(function: object, *arguments: ast.expr) -> ast.expr:
        return ast.copy_location(ast.Call(bound(getattr(function, "__name__", "where"), function), list(arguments), []), node)

    sides = [_load(counter, node), bound("limit", ctx.scalar_op("sub", upper, step))]
    if known is not None:
        return call(min if known > 0 else max, *sides)
    rising = ctx.builder.apply(table()["cmp"], "scalar", {"lhs": step, "rhs": ctx.builder.const(0), "cmp_type": 4})[0]
    return call(public("pl", "where"), bound("rising", rising), call(min, *sides), call(max, *sides))


def _more(ctx: Context, counter: object, upper: SSAValue, step: SSAValue) -> SSAValue:
    """Whether a counter has not reached its end, for either sign of the step."""
    known = static_integer(step)

    def compare(kind: int) -> SSAValue:
        return ctx.builder.apply(table()["cmp"], "scalar", {"lhs": ctx.scalar(counter), "rhs": upper, "cmp_type": kind})[0]

    if known is not None:
        return compare(2 if known > 0 else 4)
    zero = ctx.builder.const(0)
    rising = ctx.builder.apply(table()["cmp"], "scalar", {"lhs": step, "rhs": zero, "cmp_type": 4})[0]
    up = ctx.scalar_op("and_", rising, compare(2))
    down = ctx.scalar_op("and_", ctx.scalar_op("not_", rising), compare(4))
    return ctx.scalar_op("or_", up, down)


def _load(name: str, at: ast.stmt) -> ast.expr:
    return ast.copy_location(ast.Name(name, ast.Load()), at)


def _bind_node(name: str, value: ast.expr, at: ast.stmt) -> ast.stmt:
    target = ast.copy_location(ast.Name(name, ast.Store()), at)
    return ast.copy_location(ast.Assign([target], value), at)
