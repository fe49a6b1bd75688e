"""Shared by loops, branches and regions: what a name holds where paths meet."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from xdsl.ir import SSAValue

from tilejit.frontend import accumulators
from tilejit.frontend.context import Context
from tilejit.frontend.values import Binding, user_name
from tilejit.tile_ir import dialect as d
from tilejit.types.values import BufferType


def name_hint(name: str) -> str | None:
    return None if name.startswith("$") or name == "_" else user_name(name)


def ssa_or_none(value: object) -> SSAValue | None:
    return value if isinstance(value, SSAValue) else None


def unite(ctx: Context, results: Sequence[SSAValue], sources: Sequence[Sequence[SSAValue | None]]) -> None:
    """Buffer results may be any of their sources."""
    for result, candidates in zip(results, sources, strict=True):
        accumulators.met(ctx, result, candidates)
        if isinstance(d.type_of(result), BufferType):
            for candidate in candidates:
                if candidate is not None:
                    ctx.aliases.unite(result, candidate)


def unite_carried(ctx: Context, arguments: Sequence[SSAValue], inits: Sequence[SSAValue], yields: Sequence[SSAValue]) -> None:
    for argument, init, handed in zip(arguments, inits, yields, strict=True):
        accumulators.next_round(ctx, argument, init, handed)
        if isinstance(d.type_of(argument), BufferType):
            ctx.aliases.unite(argument, init)
            ctx.aliases.unite(argument, handed)


def bind_result(ctx: Context, name: str, value: object, node: ast.AST) -> None:
    ctx.scope[name] = Binding(value, ctx.scope[name].span if name in ctx.scope and ctx.scope[name].value is value else ctx.span(node))
    ctx.hint(name, value)
