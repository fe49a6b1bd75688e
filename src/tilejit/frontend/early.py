"""Rewrites `return` without a value from inside blocks and loops: what follows runs only where nobody has returned.

Inside `pl.spmd` it ends the block that runs it, as in Triton: the other blocks, and what follows them, go on.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from typing import TypeVar

from tilejit.errors import Span, UnsupportedFeatureError

FLAG = "$returned"
"""Holds whether the function has returned."""
SIDE_BY_SIDE = frozenset({"parallel", "unroll", "spmd", "split_aiv"})
"""Loops whose turns do not come one after the other, or are not there any more when the kernel runs."""

_Node = TypeVar("_Node", bound=ast.AST)
SpanOf = Callable[[ast.AST], Span]


def without_early_returns(body: Sequence[ast.stmt], span: SpanOf) -> list[ast.stmt]:
    """`body` without returns in its blocks, if all its returns are without a value; itself otherwise."""
    returns = [node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Return)]
    if any(node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None) for node in returns):
        return list(body)
    if all(node in body for node in returns):
        return list(body)
    work = _Early(span)
    out = work.block(body, in_loop=False, last=True)
    return work.started(out, body[0])


class _Early:
    """One function, or one block of a grid."""

    def __init__(self, span: SpanOf, flag: str = FLAG) -> None:
        self.span = span
        self.flag = flag
        self.flagged = False
        """Whether the flag is needed: not where an `else` does."""

    def block(self, body: Sequence[ast.stmt], in_loop: bool, last: bool) -> list[ast.stmt]:
        """The statements of a block; `last`: nothing of the function comes after it."""
        out: list[ast.stmt] = []
        for position, statement in enumerate(body):
            rest = body[position + 1 :]
            if isinstance(statement, ast.Return):
                return out + self._returned(statement, in_loop, last)
            if not _returns(statement):
                out.append(statement)
                continue
            if isinstance(statement, ast.If) and last and (split := self._split(statement, rest)) is not None:
                return [*out, split]
            if _kind(statement) == "spmd":
                out.append(self._block_of_grid(statement))
                continue
            out.append(self._within(statement, in_loop, last and not rest))
            if in_loop and not isinstance(statement, ast.If):  # out of a block or loop in this loop: on to the next one
                out.append(_at(ast.If(self._flag(statement), [_at(ast.Break(), statement)], []), statement))
            elif rest and not in_loop:
                test = _at(ast.UnaryOp(ast.Not(), self._flag(statement)), statement)
                return [*out, _at(ast.If(test, self.block(rest, False, last), []), rest[0])]
        return out

    def started(self, body: list[ast.stmt], place: ast.stmt) -> list[ast.stmt]:
        """`body`, behind the statement that nobody has returned yet."""
        return [self._set(False, place), *body] if self.flagged else body

    def _block_of_grid(self, statement: ast.stmt) -> ast.stmt:
        """A grid each of whose blocks ends by itself."""
        assert isinstance(statement, ast.For | ast.With)
        new, work = copy.copy(statement), _Early(self.span, self.flag + "_block")
        new.body = work.started(work.block(statement.body, in_loop=False, last=True), statement.body[0])
        return new

    def _returned(self, statement: ast.stmt, in_loop: bool, last: bool) -> list[ast.stmt]:
        if last:
            return [_at(ast.Pass(), statement)]
        self.flagged = True
        return [self._set(True, statement), *([_at(ast.Break(), statement)] if in_loop else [])]

    def _split(self, statement: ast.If, rest: Sequence[ast.stmt]) -> ast.If | None:
        """`if c: …; return` and what follows it, as the two sides of one branch."""
        new = copy.copy(statement)
        if isinstance(statement.body[-1], ast.Return) and not any(map(_returns, [*statement.body[:-1], *statement.orelse])):
            new.body = statement.body[:-1] or [_at(ast.Pass(), statement)]
            new.orelse = self.block([*statement.orelse, *rest], False, last=True)
            return new
        if statement.orelse and isinstance(statement.orelse[-1], ast.Return) and not any(map(_returns, [*statement.body, *statement.orelse[:-1]])):
            new.orelse = statement.orelse[:-1]
            new.body = self.block([*statement.body, *rest], False, last=True) or [_at(ast.Pass(), statement)]
            return new
        return None

    def _within(self, statement: ast.stmt, in_loop: bool, last: bool) -> ast.stmt:
        new = copy.copy(statement)
        if isinstance(new, ast.If):
            new.body, new.orelse = self.block(new.body, in_loop, last), self.block(new.orelse, in_loop, last)
        elif isinstance(new, ast.With):
            new.body = self.block(new.body, False, last)
        else:
            assert isinstance(new, ast.For | ast.While)
            self._check_loop(new)
            new.body = self.block(new.body, True, last=False)
        return new

    def _check_loop(self, loop: ast.For | ast.While) -> None:
        kind = _kind(loop)
        if kind in SIDE_BY_SIDE:
            place = next(node for node in ast.walk(loop) if isinstance(node, ast.Return))
            raise UnsupportedFeatureError(
                f"return inside a pl.{kind} loop: its turns do not come one after the other, so there is no rest to leave out",
                span=self.span(place),
                help="put the rest of the turn under `if not …:`",
            )


    def _flag(self, place: ast.stmt) -> ast.expr:
        return ast.copy_location(ast.Name(self.flag, ast.Load()), place)

    def _set(self, value: bool, place: ast.stmt) -> ast.stmt:
        name = ast.copy_location(ast.Name(self.flag, ast.Store()), place)
        return ast.copy_location(ast.Assign([name], ast.copy_location(ast.Constant(value), place)), place)


def _returns(node: ast.stmt) -> bool:
    """Whether a `return` stands in a statement."""
    return any(isinstance(child, ast.Return) for child in ast.walk(node))


def _kind(statement: ast.stmt) -> str:
    """The name of the function that a loop iterates over, or a `with` enters: `spmd` of pl.spmd(n)."""
    call = statement.iter if isinstance(statement, ast.For) else statement.items[0].context_expr if isinstance(statement, ast.With) else None
    function = call.func if isinstance(call, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


def _at(node: _Node, place: ast.AST) -> _Node:
    return ast.copy_location(node, place)
