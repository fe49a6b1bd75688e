"""Words that the text of a specialisation says itself: a local of that name is called something else there."""

from __future__ import annotations

import ast
import itertools

RESERVED = frozenset({"self", "pl", "pld", "float"})
"""The program, the language under its own name, and what infinite constants are made with."""


def make_way(function: ast.FunctionDef) -> None:
    """Rename locals of a function that are called like such a word; parameters keep their names, by which they are given."""
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    given = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    for name in sorted({node.id for node in names if isinstance(node.ctx, ast.Store)} & RESERVED - given):
        own = next(own for number in itertools.count(1) if (own := f"{name}_{number}") not in given and all(node.id != own for node in names))
        for node in names:
            node.id = own if node.id == name else node.id
