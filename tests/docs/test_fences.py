"""Every Python fence of the README and the docs runs, and every message shown there is one that a user gets."""

from __future__ import annotations

import os
import re
import runpy
import sys
from pathlib import Path

import pytest

from tilejit.config import SETTINGS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]
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


def files_of(text: str) -> dict[str, str]:
    """Fences that the reader saves under a name."""
    return {name: content + "\n" for name, content in re.findall(r"<!-- file: (\S+) -->\n```python\n(.*?)\n```", text, flags=re.DOTALL)}


@pytest.mark.parametrize("page", [pytest.param(page, marks=[pytest.mark.triton] if page.stem == "cuda" else []) for page in PAGES], ids=lambda page: page.stem)
def test_the_python_of_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text(encoding="utf-8")
    lines = [""] * (len(text.splitlines()) + 1)
    for before, content in fences(text, "python"):
        lines[before : before + len(content)] = content  # the line numbers of the page are those of a failure
    script = tmp_path / f"{page.stem.replace('-', '_')}.py"
    script.write_text("\n".join(lines), encoding="utf-8")
    for name, content in files_of(text).items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        runpy.run_path(str(script), run_name="page")
    finally:
        for name in files_of(text):
            sys.modules.pop(name.removesuffix(".py"), None)


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


LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs" / "spec").glob("*.md")), *sorted((ROOT / ".github").rglob("*.md"))]


def links_of(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)", re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE))


def anchors_of(page: Path) -> set[str]:
    """What links to parts of a page may say."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links_of(page):
        target, _, anchor = link.partition("#")
        if "://" in target:
            continue
        place = (page.parent / target).resolve() if target else page
        assert place.exists(), link
        assert not anchor or anchor in anchors_of(place), link


def test_the_specification_links_to_nothing_outside() -> None:
    for page in (ROOT / "docs" / "spec").glob("*.md"):
        for link in links_of(page):
            assert "://" not in link and (page.parent / link.partition("#")[0]).resolve().is_relative_to(ROOT), (page.name, link)
        assert not re.search(r"https?://", page.read_text(encoding="utf-8")), page.name
