"""Names of comprehensions: Python shows the variable of one to nobody outside, where the same name is another."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def set_apart(function: ast.FunctionDef) -> None:
    """Rename variables of comprehensions whose name the rest of the function reads and binds nowhere: there it comes from outside."""
    nodes = list(ast.walk(function))
    found = [node for node in nodes if isinstance(node, _COMPREHENSIONS)]
    if not found:
        return
    inside = {id(name) for node in found for name in _scope(node) if name.id in _bound(node)}
    outside = [node for node in nodes if isinstance(node, ast.Name) and id(node) not in inside]
    given = {node.arg for node in nodes if isinstance(node, ast.arg)}
    read = {name.id for name in outside} - {name.id for name in outside if isinstance(name.ctx, ast.Store)} - given
    taken = {node.id for node in nodes if isinstance(node, ast.Name)} | given
    for node in found:
        for name in sorted(_bound(node) & read):
            own = next(own for number in itertools.count(1) if (own := f"{name}_{number}") not in taken)
            for use in _scope(node):
                use.id = own if use.id == name else use.id


def _bound(node: ast.AST) -> set[str]:
    assert isinstance(node, _COMPREHENSIONS)
    return {name.id for part in node.generators for name in ast.walk(part.target) if isinstance(name, ast.Name)}


def _scope(node: ast.AST) -> Iterator[ast.Name]:
    """The names that stand where the variables of a comprehension are known: everywhere in it but in what it runs over first."""
    assert isinstance(node, _COMPREHENSIONS)
    first = {id(name) for name in ast.walk(node.generators[0].iter)}
    return (name for name in ast.walk(node) if isinstance(name, ast.Name) and id(name) not in first)
