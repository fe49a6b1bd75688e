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
    _visit(_without_docstring(node), nodes, text)
    return Tree(tuple(nodes), "".join(text))


def _visit(value: object, nodes: list[ast.AST], text: list[str]) -> None:
    if isinstance(value, ast.AST):
        fields = value._fields
        text.append(type(value).__name__)
        if not fields and not isinstance(value, ast.stmt):
            return  # Load, Add, …: they stand for themselves and have no place of their own
        nodes.append(value)
        text.append("(")
        for name in fields:
            _visit(getattr(value, name, None), nodes, text)
            text.append(",")
        text.append(")")
    elif isinstance(value, list):
        text.append("[")
        for item in cast("list[object]", value):
            _visit(item, nodes, text)
            text.append(",")
        text.append("]")
    else:
        text.append(repr(value))


def _without_docstring(node: ast.AST) -> ast.AST:
    if not isinstance(node, ast.FunctionDef):
        return node
    body = node.body
    if len(body) > 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and isinstance(body[0].value.value, str):
        body = body[1:]
    return ast.copy_location(ast.FunctionDef(node.name, node.args, body, [], node.returns, node.type_comment), node)
