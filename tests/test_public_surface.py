"""The names users can import: one surface, documented, and the same for Python, for editors and for the specification."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tilejit import ops
from tilejit.types.scopes import parse_signature

ROOT = Path(__file__).parents[1]
SPECIFICATION = (ROOT / "docs" / "spec" / "language.md").read_text(encoding="utf-8")
language = import_module("tilejit.language")


def stub_names() -> set[str]:
    """Names that the stub of the language declares."""
    tree = ast.parse((ROOT / "src" / "tilejit" / "language" / "__init__.pyi").read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def specified() -> Iterator[tuple[str, str, str]]:
    """Namespace, name and signature of every spelling in the specification's op tables."""
    tables = re.split(r"^### ", SPECIFICATION, flags=re.MULTILINE)
    for table in tables:
        if "| `pl.tensor.*` | `pl.tile.*` |" not in table:
            continue
        for name, *cells in re.findall(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|", table, flags=re.MULTILINE):
            for namespace, cell in zip(("pl", "tensor", "tile", "system"), cells, strict=True):
                if signature := re.search(r"`(\(.*\))`", cell):
                    yield namespace, name, signature.group(1)


def test_every_name_of_the_language_is_there_and_in_the_stub() -> None:
    names = set(language.public_names())
    assert [name for name in sorted(names) if getattr(language, name, None) is None] == []
    assert names - stub_names() == set()


def test_the_stub_is_what_the_op_table_says() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts" / "write_stubs.py", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_misspelt_name_is_answered_with_the_closest_one() -> None:
    with pytest.raises(AttributeError, match="row_expand_mul"):
        language.row_expand_mull
    with pytest.raises(AttributeError, match="matmul"):
        language.tile.matmull


def test_ops_are_spelled_as_specified() -> None:
    wrong: list[str] = []
    for namespace, name, signature in specified():
        found = ops.public(namespace, name)
        if found is None:
            continue
        spelled = [list(spelling.signature.parameters) for spelling, _ in found.rows]
        if list(parse_signature(signature.replace("\\|", "|")).parameters) not in spelled:
            wrong.append(f"{namespace}.{name}{signature}: the table has {[spelling.signature_text for spelling, _ in found.rows]}")
    assert wrong == []


def test_at_least_sixty_specified_ops_exist() -> None:
    assert len({name for namespace, name, _ in specified() if ops.public(namespace, name)}) >= 60
