"""Makes a failing program smaller: drops statements, unwraps blocks, replaces expressions by their operands."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

Fails = Callable[[str], bool]


def shrink(text: str, fails: Fails, budget: int = 300) -> str:
    """The smallest program found, within `budget` trials, that still fails in the same way."""
    best = ast.unparse(ast.parse(text))
    if not fails(best):
        return text
    trials = 0
    improved = True
    while improved and trials < budget:
        improved = False
        for candidate in _smaller(best):
            trials += 1
            if fails(candidate):
                best, improved = candidate, True
                break
            if trials >= budget:
                break
    return best


def _smaller(text: str) -> Iterator[str]:
    """Variants of a program with one thing less, big steps first."""
    tree = ast.parse(text)
    bodies = [(path, index) for path, body in _bodies(tree) for index in reversed(range(len(body)))]
    for path, index in bodies:
        for replacement in _replacements(_at(tree, path)[index]):
            variant = copy.deepcopy(tree)
            body = _at(variant, path)
            body[index : index + 1] = replacement
            if body:
                yield ast.unparse(ast.fix_missing_locations(variant))
    for number in range(sum(1 for _ in _calls(tree))):
        node = list(_calls(tree))[number]
        for operand in _operands(node):
            variant = copy.deepcopy(tree)
            _replace(variant, list(_calls(variant))[number], copy.deepcopy(operand))
            yield ast.unparse(ast.fix_missing_locations(variant))


def _bodies(tree: ast.AST, path: tuple[tuple[str, int], ...] = ()) -> Iterator[tuple[tuple[object, ...], list[ast.stmt]]]:
    """Every list of statements, with the way to it."""
    for field in ("body", "orelse"):
        body = getattr(tree, field, None)
        if isinstance(body, list):
            yield (*path, field), body
            for index, child in enumerate(body):
                yield from _bodies(child, (*path, field, index))  # type: ignore[arg-type]


def _at(tree: ast.AST, path: tuple[object, ...]) -> list[ast.stmt]:
    node: object = tree
    for step in path:
        node = getattr(node, step) if isinstance(step, str) else node[step]  # type: ignore[index]
    assert isinstance(node, list)
    return node


def _replacements(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    if isinstance(statement, ast.Import | ast.ClassDef | ast.FunctionDef | ast.Return):
        return
    yield []
    if isinstance(statement, ast.For | ast.While | ast.If):
        yield statement.body
        if statement.orelse:
            yield statement.orelse


def _calls(tree: ast.AST) -> Iterator[ast.expr]:
    """Expressions that could give way to an operand; annotations and decorators are left alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.Expr):
            yield from (child for child in ast.walk(node.value) if isinstance(child, ast.Call | ast.BinOp))


def _operands(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    assert isinstance(node, ast.Call)
    return [arg for arg in node.args if isinstance(arg, ast.Name | ast.Call | ast.BinOp)]


def _replace(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    class Replacer(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is old else super().visit(node)

    Replacer().visit(tree)
