"""Rules of the house that no single module can keep: looked for in the source itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tilejit.runtime import targets

SOURCE = Path(__file__).parents[1] / "src" / "tilejit"
PLATFORMS = frozenset(name for row in targets.rows() for name in (row.name, *row.platforms, *row.aliases))
AT_HOME = ("backends/", "runtime/targets.py", "config.py")
"""Who may know targets by name: they themselves, their table and the settings."""


def test_nothing_outside_the_targets_asks_for_one_by_name() -> None:
    found = [f"{place}: {text}" for place, text in _comparisons() if not place.startswith(AT_HOME)]
    assert not found, "\n".join(["ask the target (runtime/targets.py, backends/base.py) instead of comparing its name:", *found])


def test_the_rule_sees_every_way_to_compare() -> None:
    ways = ['x == "cpu"', '"cuda" != x', 'x in ("cpu", "a5")', "match x:\n case 'reference': pass", '{"cpu": 1, "cuda": 2}[x]', '{"cpu", "a2a3"}']
    assert all(list(_named(ast.parse(way))) for way in ways)
    assert not any(list(_named(ast.parse(way))) for way in ('x == "gpu"', 'f("cpu")', '("cpu", "cuda")', '{"cpu": 1}'))


def _comparisons() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in _named(ast.parse(path.read_text())):
            yield f"{path.relative_to(SOURCE)}:{node.lineno}", ast.unparse(node)


def _named(tree: ast.AST) -> Iterator[ast.expr | ast.pattern]:
    """Comparisons with a platform's name, and sets and dicts that choose by it."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare() if any(_is_name(part) for side in (node.left, *node.comparators) for part in ast.walk(side)):
                yield node
            case ast.MatchValue() if _is_name(node.value):
                yield node
            case ast.Set(elts=members) | ast.Dict(keys=members) if sum(map(_is_name, members)) > 1:
                yield node
            case _:
                pass


def _is_name(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value in PLATFORMS


def test_only_one_place_parses_python() -> None:
    """`ast.parse` of CPython 3.11 and 3.12 fails beside another thread's (types/python_text.py)."""
    calls = [path for path in SOURCE.rglob("*.py") if "ast.parse(" in path.read_text()]
    assert [path.name for path in calls] == ["python_text.py"]


def test_what_is_computed_once_takes_no_lock() -> None:
    """functools.cached_property of Python 3.11 holds one for all instances while it computes: a process forked then would wait for ever."""
    users = [path.relative_to(SOURCE).as_posix() for path in sorted(SOURCE.rglob("*.py")) if "cached_property" in path.read_text()]
    assert users == ["lazy.py"], "use tilejit.lazy"
