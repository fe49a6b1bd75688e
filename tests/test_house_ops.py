"""Ops own their facts: no collection of op names stands outside the op table and the tables of the targets."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilejit
from tilejit import ops

ROOT = Path(tilejit.__file__).parent
TABLES = {
    "backends/cpu/rules.py": "how the CPU runs a row",
    "backends/cuda/rules.py": "how a GPU runs a row",
    "backends/pto/write/rules.py": "how PTO text says a row",
    "frontend/structural.py": "rows that the front end builds itself",
    "frontend/ranks/__init__.py": "rows about ranks that the front end builds",
    "runtime/ranks/between.py": "how ranks do a collective between machines",
    "runtime/ranks/meeting.py": "what ranks bring to a collective",
    "runtime/ranks/moving.py": "how ranks do a collective",
    "runtime/ranks/standins.py": "what a host function says about ranks",
    "tile_ir/pto/rows.py": "which row a PTO instruction is",
}
"""The one table of each that has something to say row by row."""


def collections(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """Line and content of every literal collection of strings, words that are split among them: keys and values of a dict each count as one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split" and isinstance(node.func.value, ast.Constant):
            yield node.lineno, str(node.func.value.value).split()
        if not isinstance(node, ast.Set | ast.Tuple | ast.List | ast.Dict):
            continue
        sides: list[list[ast.expr | None]] = [list(node.keys), list(node.values)] if isinstance(node, ast.Dict) else [list(node.elts)]
        for side in sides:
            known = [item for item in side if isinstance(item, ast.Constant)]
            if len(known) == len(side):
                yield node.lineno, [str(item.value) for item in known]


def found_in(source: str) -> list[tuple[int, list[str]]]:
    """Collections of at least two op names, and of nothing else; or of three and more, with a few other words among them."""
    rows = ops.table()
    return [(line, texts) for line, texts in collections(ast.parse(source)) if _is_about_ops([text in rows for text in {*texts}])]


def _is_about_ops(named: list[bool]) -> bool:
    return (len(named) > 1 and all(named)) or (sum(named) > 2 and sum(named) >= 0.75 * len(named))


NAMES = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.rglob("*.py"))]
FILES = [name for name in NAMES if name not in TABLES and not name.startswith("ops/")]


@pytest.mark.parametrize("name", FILES)
def test_no_collection_of_op_names(name: str) -> None:
    found = found_in((ROOT / name).read_text(encoding="utf-8"))
    assert not found, f"{name}: {found}: make it a fact of the rows (ops/facts.py), or a rule in the table of a target"


@pytest.mark.parametrize(
    "source",
    [
        'X = {"exp", "log"}', 'X = ("add", "sub")', 'X = frozenset(["slice", "reshape"])', 'X = {"exp": 1, "log": 2}', 'X = {1: "exp", 2: "log"}',
        'X = frozenset("exp log".split())', 'X = {"add": 1, "sub": 2, "mul": 3, None: 4}',
    ],
)  # fmt: skip
def test_the_search_finds_them(source: str) -> None:
    assert found_in(source)


@pytest.mark.parametrize("source", ['X = {"exp"}', 'X = ("round", "odd")', 'X = {"shape": "exp", "dtype": "log", "x": 1}', 'X = ["add", name]'])
def test_the_search_leaves_the_rest_alone(source: str) -> None:
    assert not found_in(source)


def test_every_table_is_there() -> None:
    assert [name for name in TABLES if not (ROOT / name).exists()] == []
