"""One walk over a function's tree: its nodes in a fixed order, and a text that comments, layout, docstring and decorators do not change."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import cast


@dataclass(frozen=True, slots=True)
class Tree:
    """A function as its meaning depends on it. Walked once, because a warm start waits for it."""

    nodes: tuple[ast.AST, ...]
    """Parents before children, in source order."""
    text: str
    """Equal for two functions if and only if their code is."""


def tree_of(node: ast.AST) -> Tree:
    """The tree below `node`."""
    nodes: list[ast.AST] = []
    text: list[str] = []

    def visit(value: object) -> None:
        kind = type(value)
        if kind is list:
            text.append("[")
            for item in cast("list[object]", value):
                visit(item)
            text.append("]")
            return
        fields = _FIELDS.get(kind)
        if fields is None:
            text.append(f"{value!r},")
            return
        text.append(kind.__name__)
        if fields or isinstance(value, ast.stmt):
            nodes.append(cast("ast.AST", value))
        for name in fields:
            visit(getattr(value, name, None))

    visit(_without_docstring(node))
    return Tree(tuple(nodes), " ".join(text))


def _meaningful(kind: type[ast.AST]) -> tuple[str, ...]:
    """Fields without those that the place in the tree implies (Load, Store) or that mean nothing. A kind always has the same ones: no brackets are needed."""
    return tuple(name for name in kind._fields if name not in ("ctx", "type_comment", "kind"))


_FIELDS: dict[type, tuple[str, ...]] = {kind: _meaningful(kind) for kind in vars(ast).values() if isinstance(kind, type) and issubclass(kind, ast.AST)}


def _without_docstring(node: ast.AST) -> ast.AST:
    if not isinstance(node, ast.FunctionDef):
        return node
    body = node.body
    if len(body) > 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and isinstance(body[0].value.value, str):
        body = body[1:]
    return ast.copy_location(ast.FunctionDef(node.name, node.args, body, [], node.returns, node.type_comment), node)
