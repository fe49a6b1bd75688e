"""Loops, branches and regions: what they carry, merge and hand out."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, BlockArgument, SSAValue

from tilejit.dtypes import INDEX
from tilejit.errors import ParserSyntaxError, ParserTypeError
from tilejit.frontend.context import Context, YieldRecord
from tilejit.frontend.merge import Branches, Conflict, Fixed, Part, as_operand, is_literal, leaves, match, rebuild, value_type, widened
from tilejit.frontend.values import Binding, Undefined, defined_inside, describe_value
from tilejit.tile_ir import dialect as d
from tilejit.types.values import BufferType, ScalarType, ValueType

_MAX_ROUNDS = 12
"""Valid regions and extents only widen, so a body settles after a few readings."""

# branches -------------------------------------------------------------------------------------------------------------


def branch(ctx: Context, condition: SSAValue, node: ast.If) -> None:
    """An `if` on a run-time condition: names bound in its arms leave as results."""
    live = ctx.live
    blocks = [Block(), Block()]
    scopes: list[dict[str, Binding]] = []
    yields: list[list[YieldRecord]] = []
    for block, body in zip(blocks, (node.body, node.orelse), strict=True):
        ctx.yields.append([])
        with ctx.branch(block) as scope:
            ctx.run(body, {*live, *yield_names(body)})
        scopes.append(scope)
        yields.append(ctx.yields.pop())
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
        _bind_result(ctx, name, rebuild(part, results), node)


def _if_op(ctx: Context, condition: SSAValue, blocks: Sequence[Block], branches: Branches) -> Sequence[SSAValue]:
    """The branch op, its arms ended by what they hand out."""
    for which, block in enumerate(blocks):
        with ctx.builder.at(block):
            ctx.builder.yield_(branches.side(ctx, which))
    op = ctx.builder.if_(condition, blocks[0], blocks[1], branches.types)
    _unite(ctx, op.results, [[_ssa(pair[0]), _ssa(pair[1])] for pair in branches.pairs])
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
    from tilejit.frontend.desugar import is_yield

    out: list[str] = []
    for statement in body:
        if isinstance(statement, ast.Assign) and is_yield(statement.value):
            out += [child.id for target in statement.targets for child in ast.walk(target) if isinstance(child, ast.Name)]
        elif isinstance(statement, ast.With):
            out += yield_names(statement.body)
    return out


def _matching_yields(ctx: Context, yields: Sequence[Sequence[YieldRecord]], node: ast.If) -> list[str]:
    """The names both arms yield to, in order."""
    then, orelse = ([name for record in records for name in record.names] for records in yields)
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


def choose(ctx: Context, condition: SSAValue, node: ast.IfExp) -> object:
    """`a if condition else b` at run time."""
    blocks = [Block(), Block()]
    values: list[object] = []
    for block, side in zip(blocks, (node.body, node.orelse), strict=True):
        with ctx.builder.at(block):
            values.append(ctx.value(side))
    branches = Branches([], [])
    try:
        part = branches.pair(values[0], values[1])
    except Conflict as conflict:
        raise ParserTypeError(f"the two sides have different types: {conflict}") from None
    return rebuild(part, _if_op(ctx, condition, blocks, branches))


# loops ----------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Carried:
    """The names a loop carries: their values before it, split into leaves."""

    names: list[str]
    parts: list[Part]
    initial: list[object]
    """Leaf values before the loop: SSA values and numbers."""
    types: list[ValueType]
    explicit: int
    """How many of the names came from init_values."""
    explicit_leaves: int


def carry(ctx: Context, explicit: Sequence[tuple[str, object]], names: Iterable[str]) -> Carried:
    """What a loop carries: explicit values first, then names that its body rebinds."""
    out = Carried([], [], [], [], len(explicit), 0)
    for name, value in explicit:
        out.names.append(name)
        out.parts.append(leaves(value, out.initial))
    out.explicit_leaves = len(out.initial)
    for name in names:
        out.names.append(name)
        out.parts.append(leaves(ctx.scope[name].value, out.initial))
    out.types = [value_type(value) for value in out.initial]
    return out


def rebound_names(ctx: Context, body: Sequence[ast.stmt], read: Iterable[str], excluded: Iterable[str]) -> list[str]:
    """Names bound before a loop that its body rebinds and that are read in the next round or afterwards."""
    facts = ctx.analysis.block(body)
    wanted = {*facts.reads, *read, *ctx.live} - set(excluded)
    return [
        name
        for name in facts.binds
        if name in wanted and name in ctx.scope and not isinstance(ctx.scope[name].value, Undefined) and not name.startswith("$yield")
    ]


Attempt = Callable[[Sequence[ValueType]], tuple[Sequence[Block], list[object], dict[str, Binding]]]
"""Reads a loop's body with these leaf types: the blocks, the value of each carried name at its end, the scope at its end."""


def settle(ctx: Context, carried: Carried, attempt: Attempt, node: ast.stmt) -> tuple[Sequence[Block], list[object]]:
    """Read the body until the types of what it carries hold for every round; gives its blocks and the leaves it hands on."""
    for _ in range(_MAX_ROUNDS):
        mark = ctx.snapshot()
        blocks, values, scope = attempt(carried.types)
        found: dict[int, object] = {}
        types = list(carried.types)
        for name, part, value in zip(carried.names, carried.parts, values, strict=True):
            try:
                before = set(found)
                match(part, value, found)
                for index in found.keys() - before:
                    types[index] = widened(types[index], is_literal(carried.initial[index]), found[index])
            except Conflict as conflict:
                _conflict(ctx, name, conflict, scope, node)
        if types == carried.types:
            return blocks, [found[index] for index in range(len(types))]
        carried.types = types
        ctx.restore(mark)
        for block in blocks:
            block.drop_all_references()
    raise AssertionError("the types of a loop do not settle")


def _conflict(ctx: Context, name: str, conflict: Conflict, scope: dict[str, Binding], node: ast.stmt) -> None:
    inside, outside = scope.get(name), ctx.scope.get(name)
    where = [f"line {binding.span.line}: {describe_value(binding.value)}" for binding in (outside, inside) if binding is not None]
    error = ParserTypeError(
        f"`{name}` changes its type in the loop: {conflict}", where=where, help="keep one type for a name that a loop carries, or use another name"
    )
    error.span = inside.span if inside is not None else ctx.span(node)
    raise error


def prune(ctx: Context, carried: Carried, blocks: Sequence[Block], first: int, yields: list[SSAValue], inits: list[SSAValue]) -> list[int]:
    """Drop leaves that no round changes; `first` is the position of the first carried block argument. Gives the kept leaves."""
    kept: list[int] = []
    dropped: dict[SSAValue, SSAValue] = {}
    for index, value in enumerate(yields):
        own = [block.args[first + index] for block in blocks]
        unchanged = value in own
        is_buffer = isinstance(carried.types[index], BufferType)
        if unchanged and (index >= carried.explicit_leaves or is_buffer):
            for argument in own:
                argument.replace_all_uses_with(inits[index])
                dropped[argument] = inits[index]
        else:
            kept.append(index)
    yields[:] = [dropped.get(value, value) for value in yields]
    for block in blocks:
        for index in sorted(set(range(len(yields))) - set(kept), reverse=True):
            block.erase_arg(block.args[first + index])
    return kept


def finish(ctx: Context, carried: Carried, kept: Sequence[int], results: Sequence[SSAValue], targets: Sequence[str], node: ast.stmt) -> None:
    """Bind the names after the loop. `targets`: the names that get the explicit values."""
    values: list[object] = list(carried.initial)
    for index, result in zip(kept, results, strict=True):
        values[index] = result
    for position, (name, part) in enumerate(zip(carried.names, carried.parts, strict=True)):
        value = rebuild(part, values)
        if position < carried.explicit:
            if position < len(targets):
                _bind_result(ctx, targets[position], value, node)
        else:
            _bind_result(ctx, name, value, node)


def forget(ctx: Context, names: Iterable[str], carried: Carried, node: ast.stmt) -> None:
    """Names that only the body binds have no value after the loop, which may run zero times."""
    for name in names:
        if name in carried.names[carried.explicit :] or name.startswith("$yield"):
            continue
        reason = Undefined(
            f"`{name}` is bound only inside the loop in line {node.lineno}, which may run zero times",
            f"bind `{name}` before the loop",
        )
        ctx.scope[name] = Binding(reason, ctx.span(node))


def counted(
    ctx: Context,
    node: ast.For,
    bounds: tuple[SSAValue, SSAValue, SSAValue],
    index_name: str,
    explicit: Sequence[tuple[str, object]],
    kind: str,
    stage: int | None,
) -> None:
    """A loop over a range, in SSA: `tile.for` with everything that its body changes as carried values."""
    names = rebound_names(ctx, node.body, (), [name for name, _ in explicit] + [index_name])
    carried = carry(ctx, explicit, names)
    live = {*ctx.live, *ctx.analysis.block(node.body).reads, *carried.names}
    records: list[YieldRecord] = []

    def attempt(types: Sequence[ValueType]) -> tuple[Sequence[Block], list[object], dict[str, Binding]]:
        block = Block(arg_types=d.ir_types([ScalarType(INDEX), *types]))
        block.args[0].name_hint = _hint(index_name)
        ctx.yields.append([])
        with ctx.branch(block) as scope, _inside_loop(ctx, kind):
            scope[index_name] = Binding(block.args[0], ctx.span(node.target))
            _bind_carried(ctx, scope, carried, block.args[1:], node)
            ctx.run(node.body, {*live, *_yield_slots(carried.explicit)})
            records[:] = ctx.yields.pop()
            return [block], _next_values(ctx, carried, scope, records, node), scope

    blocks, handed = settle(ctx, carried, attempt, node)
    inits = [as_operand(ctx, value, type) for value, type in zip(carried.initial, carried.types, strict=True)]
    block = blocks[0]
    with ctx.builder.at(block):
        yields = [as_operand(ctx, value, type) for value, type in zip(handed, carried.types, strict=True)]
    _unite_carried(ctx, block.args[1:], inits, yields)
    kept = prune(ctx, carried, blocks, 1, yields, inits)
    with ctx.builder.at(block):
        ctx.builder.yield_([yields[index] for index in kept])
    op = ctx.builder.for_(*bounds, [inits[index] for index in kept], block, [carried.types[index] for index in kept], kind, stage)
    _unite(ctx, op.results, [[inits[index]] for index in kept])
    forget(ctx, [*_bound_in(ctx, node.body), index_name], carried, node)
    finish(ctx, carried, kept, op.results, _targets(records, carried), node)


def conditional(
    ctx: Context,
    node: ast.For | ast.While,
    body: Sequence[ast.stmt],
    explicit: Sequence[tuple[str, object]],
    test: Callable[[], SSAValue],
    test_reads: Iterable[str],
    hidden: Sequence[tuple[str, object]] = (),
    flag: str | None = None,
) -> None:
    """A loop on a condition, in SSA. `hidden`: further values to carry (the counter of a loop with break); `flag`: set by break."""
    names = [name for name, _ in hidden] + rebound_names(ctx, body, test_reads, [name for name, _ in (*explicit, *hidden)])
    for name, value in hidden:
        ctx.scope[name] = Binding(value, ctx.span(node))
    carried = carry(ctx, explicit, names)
    live = {*ctx.live, *ctx.analysis.block(body).reads, *test_reads, *carried.names}
    records: list[YieldRecord] = []

    def attempt(types: Sequence[ValueType]) -> tuple[Sequence[Block], list[object], dict[str, Binding]]:
        before, block = Block(arg_types=d.ir_types(types)), Block(arg_types=d.ir_types(types))
        with ctx.branch(before) as scope:
            _bind_carried(ctx, scope, carried, before.args, node)
            ctx.builder.condition(test(), before.args)
        ctx.yields.append([])
        with ctx.branch(block) as scope, _inside_loop(ctx, "while"):
            _bind_carried(ctx, scope, carried, block.args, node)
            if flag is not None:
                scope[flag] = Binding(False, ctx.span(node))  # The condition let us in.
            ctx.run(body, {*live, *_yield_slots(carried.explicit)})
            records[:] = ctx.yields.pop()
            return [before, block], _next_values(ctx, carried, scope, records, node), scope

    blocks, handed = settle(ctx, carried, attempt, node)
    inits = [as_operand(ctx, value, type) for value, type in zip(carried.initial, carried.types, strict=True)]
    before, block = blocks
    with ctx.builder.at(block):
        yields = [as_operand(ctx, value, type) for value, type in zip(handed, carried.types, strict=True)]
    _unite_carried(ctx, block.args, inits, yields)
    _unite_carried(ctx, before.args, inits, yields)
    kept = prune(ctx, carried, blocks, 0, yields, inits)
    last = before.last_op
    assert isinstance(last, d.ConditionOp)
    condition = last.condition
    last.detach()
    last.erase()
    with ctx.builder.at(before):
        ctx.builder.condition(condition, before.args)
    with ctx.builder.at(block):
        ctx.builder.yield_([yields[index] for index in kept])
    op = ctx.builder.while_([inits[index] for index in kept], before, block, [carried.types[index] for index in kept])
    _unite(ctx, op.results, [[inits[index]] for index in kept])
    forget(ctx, _bound_in(ctx, body), carried, node)
    finish(ctx, carried, kept, op.results, _targets(records, carried), node)


class _inside_loop:
    """While reading a loop's body."""

    def __init__(self, ctx: Context, kind: str) -> None:
        self.ctx, self.kind = ctx, kind

    def __enter__(self) -> None:
        self.outer, self.ctx.in_loop = self.ctx.in_loop, self.kind

    def __exit__(self, *_: object) -> None:
        self.ctx.in_loop = self.outer


def _yield_slots(count: int) -> list[str]:
    return [f"$yield{index}" for index in range(count)]


def _bound_in(ctx: Context, body: Sequence[ast.stmt]) -> list[str]:
    return list(ctx.analysis.block(body).binds)


def _bind_carried(ctx: Context, scope: dict[str, Binding], carried: Carried, arguments: Sequence[BlockArgument], node: ast.stmt) -> None:
    for name, part in zip(carried.names, carried.parts, strict=True):
        span = scope[name].span if name in scope else ctx.span(node)
        value = rebuild(part, arguments)
        scope[name] = Binding(value, span)
        if isinstance(value, BlockArgument):
            value.name_hint = _hint(name)
    for argument, value in zip(arguments, carried.initial, strict=True):
        if isinstance(value, SSAValue) and isinstance(d.type_of(value), BufferType):
            ctx.aliases.unite(argument, value)


def _next_values(ctx: Context, carried: Carried, scope: dict[str, Binding], records: Sequence[YieldRecord], node: ast.stmt) -> list[object]:
    """What each carried name hands to the next round."""
    if records and not carried.explicit:
        ctx.fail(ParserSyntaxError, "pl.yield_ in a loop without init_values", records[0].node, help="pass init_values=(…), or simply rebind the names")
    if len(records) > 1:
        ctx.fail(ParserSyntaxError, "this loop yields twice", records[1].node, help="yield once, at the end of the body")
    if records and len(records[0].values) != carried.explicit:
        ctx.fail(
            ParserSyntaxError,
            f"the loop carries {carried.explicit} value{'s' * (carried.explicit != 1)}, pl.yield_ hands on {len(records[0].values)}",
            records[0].node,
            help="yield one value for each of init_values, in the same order",
        )
    out: list[object] = []
    for position, name in enumerate(carried.names):
        if records and position < carried.explicit:
            slot = scope.get(f"$yield{position}")
            out.append(records[0].values[position] if slot is None else slot.value)
            scope[name] = Binding(out[-1], ctx.span(records[0].node))
        else:
            value = scope[name].value
            if isinstance(value, Undefined):
                ctx.fail(ParserTypeError, value.reason, node, help=value.help)
            out.append(value)
    return out


def _targets(records: Sequence[YieldRecord], carried: Carried) -> list[str]:
    """Names that hold the explicit values after the loop: those on the left of the yield, else the carried names."""
    return list(records[0].names) if records else carried.names[: carried.explicit]


# regions --------------------------------------------------------------------------------------------------------------


def region(
    ctx: Context,
    node: ast.With | ast.For,
    body: Sequence[ast.stmt],
    kind: str,
    name_hint: str | None,
    options: dict[str, object],
    blocks: SSAValue | None = None,
    index_name: str | None = None,
) -> None:
    """An execution-plane region. What its body binds and is read later leaves as results; blocks hand out nothing."""
    block = Block(arg_types=d.ir_types([ScalarType(INDEX)] if blocks is not None else []))
    live = ctx.live
    outer_plane, outer_block = ctx.plane, ctx.block
    ctx.plane = "execution"
    if blocks is not None:
        ctx.block = (block.args[0], blocks)
    with ctx.branch(block) as scope:
        if index_name is not None:
            block.args[0].name_hint = _hint(index_name)
            scope[index_name] = Binding(block.args[0], ctx.span(node))
        ctx.run(body, live)
    ctx.plane, ctx.block = outer_plane, outer_block
    results: dict[SSAValue, int] = {}
    names = [name for name in ctx.analysis.block(body).binds if name in live and name in scope]
    pending: list[tuple[str, Binding]] = []
    for name in names:
        binding = scope[name]
        inside = [value for value in _ssa_leaves(binding.value) if defined_inside(value, block)]
        if inside and blocks is not None:
            reason = Undefined(f"`{name}` is computed inside pl.spmd, where each block has its own", "store it into a tensor to use it afterwards")
            ctx.scope[name] = Binding(reason, binding.span)
            continue
        for value in inside:
            results.setdefault(value, len(results))
        pending.append((name, binding))
    with ctx.builder.at(block):
        ctx.builder.yield_(list(results))
    op = ctx.builder.region(block, [d.type_of(value) for value in results], blocks, kind, name_hint, options)
    _unite(ctx, op.results, [[value] for value in results])
    for name, binding in pending:
        value = _replaced(binding.value, {old: op.results[index] for old, index in results.items()})
        ctx.scope[name] = Binding(value, binding.span)


def _ssa_leaves(value: object) -> list[SSAValue]:
    if isinstance(value, SSAValue):
        return [value]
    return [leaf for item in value for leaf in _ssa_leaves(item)] if isinstance(value, tuple | list) else []


def _replaced(value: object, mapping: dict[SSAValue, SSAValue]) -> object:
    if isinstance(value, SSAValue):
        return mapping.get(value, value)
    return type(value)(_replaced(item, mapping) for item in value) if isinstance(value, tuple | list) else value


# helpers --------------------------------------------------------------------------------------------------------------


def _hint(name: str) -> str | None:
    return None if name.startswith("$") or name == "_" else name


def _ssa(value: object) -> SSAValue | None:
    return value if isinstance(value, SSAValue) else None


def _unite(ctx: Context, results: Sequence[SSAValue], sources: Sequence[Sequence[SSAValue | None]]) -> None:
    """Buffer results may be any of their sources."""
    for result, candidates in zip(results, sources, strict=True):
        if isinstance(d.type_of(result), BufferType):
            for candidate in candidates:
                if candidate is not None:
                    ctx.aliases.unite(result, candidate)


def _unite_carried(ctx: Context, arguments: Sequence[SSAValue], inits: Sequence[SSAValue], yields: Sequence[SSAValue]) -> None:
    for argument, init, handed in zip(arguments, inits, yields, strict=True):
        if isinstance(d.type_of(argument), BufferType):
            ctx.aliases.unite(argument, init)
            ctx.aliases.unite(argument, handed)


def _bind_result(ctx: Context, name: str, value: object, node: ast.AST) -> None:
    ctx.scope[name] = Binding(value, ctx.scope[name].span if name in ctx.scope and ctx.scope[name].value is value else ctx.span(node))
    ctx.hint(name, value)
