"""Files and functions that the pages for readers of the source name are where they say."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tilejit"
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("how-it-works", "one-call"))]
STEP = re.compile(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?:, (?!`[\w/]+\.py`))?)+)")
"""A file, and names in it."""
FILE = re.compile(r"`((?:[\w.]+/)*[\w.]+\.(?:py|pyi|md)|(?:[\w.]+/)+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_and_folder_exists(page: Path) -> None:
    for line in page.read_text(encoding="utf-8").splitlines():
        names = FILE.findall(line)
        within = names[0] if line.startswith("|") and names and names[0].endswith("/") else ""  # the row of a folder names what is in it
        for name in names:
            assert any((start / name).exists() for start in (SOURCE, ROOT, SOURCE / within)), name


def test_every_step_of_a_call_is_where_the_page_says() -> None:
    steps = STEP.findall((ROOT / "docs" / "one-call.md").read_text(encoding="utf-8"))
    assert len(steps) > 40
    for file, names in steps:
        defined = _defined(ast.parse((SOURCE / file).read_text(encoding="utf-8")).body)
        assert set(re.findall(r"`([\w.]+)`", names)) <= defined, (file, names)


def _defined(body: list[ast.stmt], prefix: str = "") -> set[str]:
    """Functions and classes, with what is in the classes."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(prefix + node.name)
            found |= _defined(node.body, f"{prefix}{node.name}.") if isinstance(node, ast.ClassDef) else set()
    return found
