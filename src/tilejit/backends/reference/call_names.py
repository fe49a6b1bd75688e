"""What values are called on both sides of a call that was inlined: read off the source, for debuggers only."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache

from tilejit.errors import SourceText, Span
from tilejit.types.python_text import statements


@dataclass(frozen=True, slots=True)
class Names:
    """Pairs of names that mean the same value."""

    passed: tuple[tuple[str, str], ...] = ()
    """(parameter of the helper, name in the caller)."""
    returned: tuple[tuple[str, str], ...] = ()
    """(name in the caller, name in the helper)."""


def crossing_names(site: Span, inside: Span) -> Names:
    """The names of a call at `site` of the helper that has the line `inside`; those that are no plain names are left out."""
    caller, helper = _tree(site.source), _function_at(_tree(inside.source), inside.line)
    found = [
        node for node in ast.walk(caller) if isinstance(node, ast.Call) and (node.lineno, node.col_offset) == (site.line, site.column - 1)
    ]
    if helper is None or not found:
        return Names()
    call = found[0]
    params = [arg.arg for arg in (*helper.args.args, *helper.args.kwonlyargs)]
    given = [*zip(params, call.args, strict=False), *((word.arg, word.value) for word in call.keywords if word.arg is not None)]
    passed = tuple((param, value.id) for param, value in given if isinstance(value, ast.Name))
    targets = [_parts(node.targets[0]) for node in ast.walk(caller) if isinstance(node, ast.Assign) and node.value is call]
    ends = [_parts(node.value) for node in ast.walk(helper) if isinstance(node, ast.Return) and node.value is not None]
    pairs = zip(targets[0], ends[-1], strict=False) if targets and ends else ()
    return Names(passed, tuple((here.id, there.id) for here, there in pairs if isinstance(here, ast.Name) and isinstance(there, ast.Name)))


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple | ast.List) else [node]


def _function_at(tree: ast.AST, line: int) -> ast.FunctionDef | None:
    around = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or line)]
    return max(around, key=lambda node: node.lineno, default=None)


@lru_cache(maxsize=16)
def _parsed(text: str) -> ast.Module:
    try:
        return statements(text)
    except SyntaxError:  # a file that changed since, or a cell of a notebook with commands of its shell
        return ast.Module(body=[], type_ignores=[])


def _tree(source: SourceText) -> ast.Module:
    return _parsed("\n" * (source.first_line - 1) + "".join(line if line.endswith("\n") else f"{line}\n" for line in source.lines))
