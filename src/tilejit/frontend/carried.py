"""What loops carry: names that a body rebinds become SSA values that each round hands to the next."""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.ir import Block, BlockArgument, SSAValue

from tilejit.dtypes import INDEX
from tilejit.errors import ParserSyntaxError, ParserTypeError
from tilejit.frontend import late
from tilejit.frontend.context import Context
from tilejit.frontend.joins import bind_result, name_hint, unite, unite_carried
from tilejit.frontend.merge import Conflict, Part, as_operand, is_literal, leaves, match, rebuild, value_type, widened
from tilejit.frontend.refusals import LISTS_IN_LOOPS
from tilejit.frontend.values import Binding, Perhaps, Undefined, YieldRecord, describe_value, static_integer
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.names import name_value
from tilejit.types.values import BufferType, ScalarType, ValueType

_MAX_ROUNDS = 12
"""Valid regions and extents only widen, so a body settles after a few readings."""


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
    ctx.aliases.read(out.initial)
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
    known = [binding for binding in (outside, inside) if binding is not None and not isinstance(binding.value, Perhaps)]
    where = [f"line {binding.span.line}: {describe_value(binding.value)}" for binding in known]
    lengths = {len(binding.value) for binding in known if isinstance(binding.value, tuple | list)}
    help = LISTS_IN_LOOPS if len(lengths) > 1 else "keep one type for a name that a loop carries, or use another name"
    error = ParserTypeError(f"`{name}` changes its type in the loop: {conflict}", where=where, help=help)
    error.span = inside.span if inside is not None else ctx.span(node)
    raise error


def prune(ctx: Context, carried: Carried, blocks: Sequence[Block], first: int, yields: list[SSAValue], inits: list[SSAValue]) -> list[int]:
    """Drop leaves that no round changes; `first` is the position of the first carried block argument. Gives the kept leaves."""
    kept: list[int] = []
    dropped: dict[SSAValue, SSAValue] = {}
    for index, value in enumerate(yields):
        own = [block.args[first + index] for block in blocks]
        unchanged = value in own or value is inits[index]
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
        before = values[index]
        if isinstance(before, SSAValue) and before in ctx.accumulators.parts:
            ctx.accumulators.parts[result] = ctx.accumulators.parts[before]
        values[index] = result
    for position, (name, part) in enumerate(zip(carried.names, carried.parts, strict=True)):
        value = rebuild(part, values)
        if position < carried.explicit:
            if position < len(targets):
                bind_result(ctx, targets[position], value, node)
        else:
            bind_result(ctx, name, value, node)


def forget(ctx: Context, names: Iterable[str], carried: Carried, node: ast.stmt) -> None:
    """What a body binds and nobody reads afterwards, or what no loop can carry, has no value after it."""
    for name in names:
        if name in carried.names[carried.explicit :] or name.startswith("$yield"):
            continue
        reason = Undefined(f"`{name}` is bound only inside the loop in line {node.lineno}", f"bind `{name}` before the loop")
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
    if index_name in ctx.live and late.is_bound(ctx.scope, index_name):
        names.append(index_name)
    carried = carry(ctx, explicit, names)
    live = {*ctx.live, *_read_next(ctx, node.body), *carried.names}
    records: list[YieldRecord] = []
    rounds = _constant_range(bounds)

    def attempt(types: Sequence[ValueType]) -> tuple[Sequence[Block], list[object], dict[str, Binding]]:
        block = Block(arg_types=d.ir_types([ScalarType(INDEX), *types]))
        name_value(block.args[0], name_hint(index_name))
        ctx.yields.append([])
        if rounds is not None:
            ctx.rounds[block.args[0]] = rounds
        if _counts_up(bounds):
            ctx.counts.add(block.args[0])
        with ctx.branch(block) as scope, _inside_loop(ctx, kind, bool(rounds)):
            _bind_carried(ctx, scope, carried, block.args[1:], node)
            scope[index_name] = Binding(block.args[0], ctx.span(node.target))
            ctx.run(node.body, {*live, *_yield_slots(carried.explicit)})
            records[:] = ctx.yields.pop()
            return [block], _next_values(ctx, carried, scope, records, node), scope

    names += late.prepare(ctx, [index_name, *_bound_in(ctx, node.body)], carried.names, lambda: attempt(carried.types), bool(rounds), node)
    carried = carry(ctx, explicit, names)
    blocks, handed = settle(ctx, carried, attempt, node)
    inits = [as_operand(ctx, value, type) for value, type in zip(carried.initial, carried.types, strict=True)]
    block = blocks[0]
    with ctx.builder.at(block):
        yields = [as_operand(ctx, value, type) for value, type in zip(handed, carried.types, strict=True)]
    unite_carried(ctx, block.args[1:], inits, yields, block)
    kept = prune(ctx, carried, blocks, 1, yields, inits)
    with ctx.builder.at(block):
        ctx.builder.yield_([yields[index] for index in kept])
    op = ctx.builder.for_(*bounds, [inits[index] for index in kept], block, [carried.types[index] for index in kept], kind, stage)
    unite(ctx, op.results, [[inits[index]] for index in kept])
    forget(ctx, [*_bound_in(ctx, node.body), index_name], carried, node)
    finish(ctx, carried, kept, op.results, _targets(records, carried), node)


def _counts_up(bounds: tuple[SSAValue, SSAValue, SSAValue]) -> bool:
    lower, step = static_integer(bounds[0]), static_integer(bounds[2])
    return lower is not None and step is not None and lower >= 0 and step > 0


def _constant_range(bounds: Sequence[SSAValue]) -> range | None:
    start, stop, step = (static_integer(bound) for bound in bounds)
    return None if start is None or stop is None or not step else range(start, stop, step)


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
    live = {*ctx.live, *_read_next(ctx, body), *test_reads, *carried.names}
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

    names += late.prepare(ctx, _bound_in(ctx, body), carried.names, lambda: attempt(carried.types), False, node)
    carried = carry(ctx, explicit, names)
    blocks, handed = settle(ctx, carried, attempt, node)
    inits = [as_operand(ctx, value, type) for value, type in zip(carried.initial, carried.types, strict=True)]
    before, block = blocks
    with ctx.builder.at(block):
        yields = [as_operand(ctx, value, type) for value, type in zip(handed, carried.types, strict=True)]
    unite_carried(ctx, block.args, inits, yields, block)
    unite_carried(ctx, before.args, inits, yields, block)
    kept = prune(ctx, carried, blocks, 0, yields, inits)
    last = d.end_of(before, d.ConditionOp)
    condition = last.condition
    last.detach()
    last.erase()
    with ctx.builder.at(before):
        ctx.builder.condition(condition, before.args)
    with ctx.builder.at(block):
        ctx.builder.yield_([yields[index] for index in kept])
    op = ctx.builder.while_([inits[index] for index in kept], before, block, [carried.types[index] for index in kept])
    unite(ctx, op.results, [[inits[index]] for index in kept])
    forget(ctx, _bound_in(ctx, body), carried, node)
    finish(ctx, carried, kept, op.results, _targets(records, carried), node)


@contextmanager
def _inside_loop(ctx: Context, kind: str, runs: bool = False) -> Generator[None]:
    """While reading a loop's body; `runs`: it runs at least once for certain."""
    outer, ctx.in_loop = ctx.in_loop, kind
    certain, ctx.certain = ctx.certain, ctx.certain and runs
    yield
    ctx.in_loop, ctx.certain = outer, certain


def _yield_slots(count: int) -> list[str]:
    return [f"$yield{index}" for index in range(count)]


def _read_next(ctx: Context, body: Sequence[ast.stmt]) -> list[str]:
    """Names that a round may read from the one before: without a value before the loop there is nothing to read."""
    return [name for name in ctx.analysis.block(body).reads if name in ctx.scope]


def _bound_in(ctx: Context, body: Sequence[ast.stmt]) -> list[str]:
    return list(ctx.analysis.block(body).binds)


def _bind_carried(ctx: Context, scope: dict[str, Binding], carried: Carried, arguments: Sequence[BlockArgument], node: ast.stmt) -> None:
    for name, part in zip(carried.names, carried.parts, strict=True):
        span = scope[name].span if name in scope else ctx.span(node)
        value = rebuild(part, arguments)
        scope[name] = Binding(value, span)
        held = value[0] if isinstance(value, Perhaps) else value
        if isinstance(held, BlockArgument):
            name_value(held, name_hint(name))
    for argument, value in zip(arguments, carried.initial, strict=True):
        if isinstance(value, SSAValue):
            ctx.aliases.met(argument, value)
        if isinstance(value, SSAValue) and value in ctx.accumulators.parts:
            ctx.accumulators.parts[argument] = ctx.accumulators.parts[value]


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
