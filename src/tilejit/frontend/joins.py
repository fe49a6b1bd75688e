"""Shared by loops, branches and regions: what a name holds where paths meet."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from tilejit.frontend import accumulators
from tilejit.frontend.context import Context
from tilejit.frontend.values import Binding, user_name


def name_hint(name: str) -> str | None:
    return None if name.startswith("$") or name == "_" else user_name(name)


def ssa_or_none(value: object) -> SSAValue | None:
    return value if isinstance(value, SSAValue) else None


def unite(ctx: Context, results: Sequence[SSAValue], sources: Sequence[Sequence[SSAValue | None]], blocks: Sequence[Block | None] = (None,)) -> None:
    """Results may be any of their sources, which come out of these blocks."""
    for result, candidates in zip(results, sources, strict=True):
        accumulators.met(ctx, result, candidates)
        for candidate, block in zip(candidates, blocks, strict=True):
            if candidate is not None:
                ctx.aliases.met(result, candidate, block)


def unite_carried(ctx: Context, arguments: Sequence[SSAValue], inits: Sequence[SSAValue], yields: Sequence[SSAValue], body: Block) -> None:
    for argument, init, handed in zip(arguments, inits, yields, strict=True):
        accumulators.next_round(ctx, argument, init, handed)
        ctx.aliases.met(argument, init)
        ctx.aliases.met(argument, handed, body)


def bind_result(ctx: Context, name: str, value: object, node: ast.AST) -> None:
    ctx.scope[name] = Binding(value, ctx.scope[name].span if name in ctx.scope and ctx.scope[name].value is value else ctx.span(node))
    ctx.hint(name, value)
