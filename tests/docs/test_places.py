"""Files and functions that the pages for readers of the source name are where they say, and a call goes through them in that order."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import tilejit.language as pl

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


def test_the_map_has_every_folder() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Map of the source")[2]
    rows = [[name.rstrip("/") for name in FILE.findall(row) if name.endswith("/")] for row in page.splitlines() if row.startswith("|")]
    mapped = {name for row in rows for inside in row for name in (inside, f"{row[0]}/{inside}")}
    folders = {path.parent.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")} - {"."}
    assert folders - mapped == set()


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


@pl.jit
def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x + x


def test_a_call_goes_through_the_steps_in_the_order_of_the_page() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    cold = _called(lambda: doubled(x))
    doubled.cache_clear()
    for section, calls, steps in (("Cold", cold, 18), ("From disk", _called(lambda: doubled(x)), 7)):
        page = (ROOT / "docs" / "one-call.md").read_text(encoding="utf-8").partition(f"## {section}")[2].partition("\n## ")[0]
        rows = [[(file, name) for file, names in STEP.findall(row) for name in re.findall(r"`([\w.]+)`", names)] for row in page.splitlines()]
        reached = [(at[0], row) for row in rows if (at := [calls[place] for place in row if place in calls])]
        assert len(reached) >= steps, section
        assert [row for _, row in reached] == [row for _, row in sorted(reached)], section


def _called(call: Callable[[], object]) -> dict[tuple[str, str], int]:
    """Functions of the package, and classes of which one is called, by file and name; with the place of the first call."""
    found: dict[tuple[str, str], int] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(str(SOURCE)):  # not the bodies of modules and classes
            file = Path(code.co_filename).relative_to(SOURCE).as_posix()
            for name in (code.co_qualname, code.co_qualname.partition(".")[0]):
                found.setdefault((file, name), len(found))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found
