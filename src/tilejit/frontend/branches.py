"""Branches at run time: both arms are read, what they bind is merged."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from xdsl.ir import Block, SSAValue

from tilejit.errors import ParserSyntaxError, ParserTypeError
from tilejit.frontend.context import Context
from tilejit.frontend.desugar import is_yield
from tilejit.frontend.joins import bind_result, ssa_or_none, unite
from tilejit.frontend.merge import Branches, Conflict, Fixed, Part, rebuild
from tilejit.frontend.values import Binding, Undefined, YieldRecord, describe_value


def branch(ctx: Context, condition: SSAValue, node: ast.If) -> None:
    """An `if` on a run-time condition: names bound in its arms leave as results."""
    live = ctx.live
    blocks = [Block(), Block()]
    scopes: list[dict[str, Binding]] = []
    yields: list[list[YieldRecord]] = []
    certain, ctx.certain = ctx.certain, False
    before, stale = ctx.accumulators.stale, dict(ctx.accumulators.stale)
    for block, body in zip(blocks, (node.body, node.orelse), strict=True):
        ctx.yields.append([])
        ctx.accumulators.stale = dict(before)
        with ctx.branch(block) as scope:
            ctx.run(body, {*live, *yield_names(body)})
        scopes.append(scope)
        yields.append(ctx.yields.pop())
        stale |= ctx.accumulators.stale
    ctx.accumulators.stale = stale
    ctx.certain = certain
    forced = _matching_yields(ctx, yields, node)
    bound = [*ctx.analysis.block(node.body).binds, *ctx.analysis.block(node.orelse).binds]
    names = dict.fromkeys([*forced, *(name for name in bound if name in live and not name.startswith("$yield"))])
    branches = Branches([], [])
    parts: dict[str, Part] = {}
    for name in names:
        outcome = _as_condition(ctx, condition, name, scopes) if name not in forced else None
        outcome = outcome or _merge_name(ctx, name, scopes, branches, node, name in forced)
        if isinstance(outcome, Undefined):
            ctx.scope[name] = Binding(outcome, ctx.span(node))
        else:
            parts[name] = outcome
    results: Sequence[SSAValue] = ()
    if branches.pairs or any(block.first_op is not None for block in blocks):
        results = _if_op(ctx, condition, blocks, branches)
    for name, part in parts.items():
        bind_result(ctx, name, rebuild(part, results), node)


def _if_op(ctx: Context, condition: SSAValue, blocks: Sequence[Block], branches: Branches) -> Sequence[SSAValue]:
    """The branch op, its arms ended by what they hand out."""
    for which, block in enumerate(blocks):
        with ctx.builder.at(block):
            ctx.builder.yield_(branches.side(ctx, which))
    op = ctx.builder.if_(condition, blocks[0], blocks[1], branches.types)
    unite(ctx, op.results, [[ssa_or_none(pair[0]), ssa_or_none(pair[1])] for pair in branches.pairs], blocks)
    return op.results


def _as_condition(ctx: Context, condition: SSAValue, name: str, scopes: Sequence[dict[str, Binding]]) -> Part | None:
    """A name that is True in one arm and False in the other is the condition itself, or its opposite."""
    values = [scope[name].value if name in scope else None for scope in scopes]
    if values[0] is True and values[1] is False:
        return Fixed(condition)
    if values[0] is False and values[1] is True:
        return Fixed(ctx.scalar_op("not_", condition))
    return None


def _merge_name(ctx: Context, name: str, scopes: Sequence[dict[str, Binding]], branches: Branches, node: ast.If, forced: bool) -> Part | Undefined:
    found = [scope.get(name) for scope in scopes]
    first, second = found
    missing = [binding is None or isinstance(binding.value, Undefined) for binding in found]
    if any(missing):
        if all(missing):
            both = next((binding for binding in found if binding is not None), None)
            return both.value if both is not None and isinstance(both.value, Undefined) else Undefined(f"`{name}` has no value here")
        line = node.lineno
        arm = "when the condition is false" if missing[1] else "when the condition is true"
        return Undefined(
            f"`{name}` has no value {arm}: the `if` in line {line} binds it in one branch only", f"bind `{name}` before the `if`, or in both branches"
        )
    assert first is not None and second is not None
    try:
        return branches.pair(first.value, second.value, forced)
    except Conflict as conflict:
        where = [f"line {binding.span.line}: {describe_value(binding.value)}" for binding in (first, second)]
        raise ctx.locate(
            ParserTypeError(
                f"`{name}` cannot have two types after the `if`: {conflict}", where=where, help="give both branches the same type, or use another name"
            ),
            node,
        ) from None


def yield_names(body: Sequence[ast.stmt]) -> list[str]:
    """Names on the left of `pl.yield_` in this arm."""
    out: list[str] = []
    for statement in body:
        if isinstance(statement, ast.Assign) and is_yield(statement.value):
            out += [child.id for target in statement.targets for child in ast.walk(target) if isinstance(child, ast.Name)]
        elif isinstance(statement, ast.With):
            out += yield_names(statement.body)
    arm = _elif(body)
    return yield_names(arm) if arm and not out else out


def _elif(body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """What the first arm of an `elif` does, if these statements are one: its arms yield for the whole `if`."""
    return body[0].body if len(body) == 1 and isinstance(body[0], ast.If) and body[0].orelse else ()


def _matching_yields(ctx: Context, yields: Sequence[Sequence[YieldRecord]], node: ast.If) -> list[str]:
    """The names both arms yield to, in order."""
    then, orelse = ([name for record in records for name in record.names] for records in yields)
    orelse = orelse or yield_names(_elif(node.orelse))
    if then == orelse:
        return then
    place = next((record.node for records in yields for record in records), node)
    if not then or not orelse:
        ctx.fail(ParserSyntaxError, "only one branch of this `if` has pl.yield_", place, help="both branches must yield the same names")
    ctx.fail(
        ParserSyntaxError,
        f"the branches yield different names: {', '.join(then)} and {', '.join(orelse)}",
        place,
        help="both branches must yield the same names in the same order",
    )


def choose(ctx: Context, condition: SSAValue, body: Callable[[], object], orelse: Callable[[], object]) -> object:
    """`a if condition else b` at run time."""
    blocks = [Block(), Block()]
    values: list[object] = []
    for block, side in zip(blocks, (body, orelse), strict=True):
        with ctx.builder.at(block):
            values.append(side())
    branches = Branches([], [])
    try:
        part = branches.pair(values[0], values[1])
    except Conflict as conflict:
        raise ParserTypeError(f"the two sides have different types: {conflict}") from None
    return rebuild(part, _if_op(ctx, condition, blocks, branches))
