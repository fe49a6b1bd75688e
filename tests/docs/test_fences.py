"""Every Python fence of the README and the docs runs, and every message shown there is one that a user gets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tilejit.config import SETTINGS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GOLDEN = ROOT / "tests" / "golden"


def fences(text: str, language: str) -> list[tuple[int, list[str]]]:
    """The fenced blocks of a language: number of lines before the content, and the content."""
    found: list[tuple[int, list[str]]] = []
    inside: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if fence := re.match(r"```(\w*)$", line):
            inside = None if inside is not None else fence.group(1)
            if inside == language:
                found.append((number, []))
        elif inside == language:
            found[-1][1].append(line)
    return found


@pytest.mark.parametrize("page", [pytest.param(page, marks=[pytest.mark.triton] if page.stem == "cuda" else []) for page in PAGES], ids=lambda page: page.stem)
def test_the_python_of_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    lines = [""] * (len(page.read_text(encoding="utf-8").splitlines()) + 1)
    for before, content in fences(page.read_text(encoding="utf-8"), "python"):
        lines[before : before + len(content)] = content  # the line numbers of the page are those of a failure
    script = tmp_path / f"{page.stem}.py"
    script.write_text("\n".join(lines), encoding="utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


SHOWN = re.compile(r"(<!-- message: (\w+) -->\n```text\n)(.*?)(\n```)", re.DOTALL)
"""A fence that shows the message of a mistake in tests/errors."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_message_shown_on_a_page_is_the_golden_one(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    fresh = SHOWN.sub(lambda found: found[1] + (GOLDEN / f"{found[2]}.txt").read_text(encoding="utf-8").strip() + found[4], text)
    if os.environ.get("UPDATE_GOLDEN"):
        page.write_text(fresh, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == fresh


def test_the_table_of_settings_is_the_one_of_the_code() -> None:
    listed = re.findall(r"^\| `(TILEJIT_\w+)` \| (.*) \|$", (ROOT / "docs" / "caching.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert listed == [(setting.variable, setting.doc) for setting in SETTINGS]


def test_links_between_the_pages_lead_somewhere() -> None:
    broken = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#]+)", re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []
