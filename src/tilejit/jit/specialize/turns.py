"""Loops over what is known while compiling: one turn after the other, each in the text."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tilejit.errors import UnsupportedFeatureError, in_body
from tilejit.frontend.refusals import plain_range
from tilejit.jit.specialize.iterate import Source, check_unchanged, iterated
from tilejit.jit.specialize.order import named_before
from tilejit.jit.specialize.values import Static

if TYPE_CHECKING:
    from tilejit.jit.specialize.statements import Statements
    from tilejit.jit.specialize.walk import Folded


def unrolled(body: Statements, node: ast.For) -> list[ast.stmt] | None:
    """The turns of a loop over what is known while compiling; None: it is another loop."""
    if isinstance(node.iter, ast.Call) and isinstance(callee := body.fold(node.iter.func)[1], Static) and callee.value is range:
        raise in_body(type(refused := plain_range(node.iter)))(refused.message, span=body.definition.span(node.iter), help=refused.hint)
    if isinstance(node.iter, ast.Call) and body.is_marker(node.iter.func):
        return None
    bound = {part.id for inner in (node.target, *node.body) for part in ast.walk(inner) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    sources: list[Source] = []
    members = iterated(body, node.iter, named_before(body, bound), sources)
    if members is None:
        return None

    def check(position: int, before_turn: int) -> None:
        if body.changes != before_turn:
            check_unchanged(body, sources, position, node.iter, node)

    return expanded(body, node, members, check)


def expanded(body: Statements, node: ast.For, members: Sequence[Folded], check: Callable[[int, int], None] | None = None) -> list[ast.stmt]:
    """The turns of a loop, one after the other, up to a `break`, else with what stands under `else`; `check` is called after each."""
    out: list[ast.stmt] = []
    for position, item in enumerate(members, 1):
        changes = body.changes
        out += body.bind_member(node.target, item)
        turn, end = _turn(body, node.body)
        out += turn
        if end is ast.Break or end is ast.Return:
            return out
        if check is not None:
            check(position, changes)
    return out + body.reached(node.orelse)


def _turn(body: Statements, statements: Sequence[ast.stmt]) -> tuple[list[ast.stmt], type[ast.stmt] | None]:
    """One turn, up to a `break`, `continue` or `return` that is decided while compiling; at run time there is nothing left to jump out of."""
    out: list[ast.stmt] = []
    for statement in statements:
        for new in body.statement(statement):
            if isinstance(new, ast.Break | ast.Continue):
                return out, type(new)
            jump = _jump(new)
            if jump is not None:
                word = "break" if isinstance(jump, ast.Break) else "continue"
                raise in_body(UnsupportedFeatureError)(
                    f"{word} in a loop that is expanded while compiling, under a condition known only at run time",
                    span=body.definition.span(jump),
                    help="put the rest of the turn into the other branch of the `if`",
                )
            out.append(new)
        if out and isinstance(out[-1], ast.Return):
            return out, ast.Return
    return out, None


def _jump(node: ast.stmt) -> ast.stmt | None:
    """A `break` or `continue` that belongs to the loop around a statement."""
    if isinstance(node, ast.Break | ast.Continue):
        return node
    if not isinstance(node, ast.If | ast.With):
        return None
    inner = [*node.body, *(node.orelse if isinstance(node, ast.If) else [])]
    return next((found for child in inner if (found := _jump(child)) is not None), None)
