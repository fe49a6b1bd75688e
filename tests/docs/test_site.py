"""The pages of the site that are made from tables say what the tables say, and every page has its place. The whole site: make docs."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tilejit import errors, ops

ROOT = Path(__file__).parents[2]


def _hook() -> Any:
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "scripts" / "docs_site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SITE = _hook()
ROWS = [row for row in ops.table().values() if row.spellings]


@pytest.mark.parametrize("row", ROWS[::40], ids=lambda row: row.name)
def test_the_page_of_an_operator_has_signature_targets_and_an_example(row: Any) -> None:
    page = SITE.operator_page(row)
    assert row.doc in page and f"{SITE.spelled(row.spellings[0])}{row.spellings[0].signature_text}" in page
    assert "| reference | yes |" in page and "| cpu |" in page and "| cuda |" in page
    assert all(f"| `{param.name}` |" in page for param in row.params)


def test_nearly_every_operator_has_an_example() -> None:
    """Calls that can be made up from the table, those written by hand, or kernels of the tests."""
    known = {row.name for row in ROWS for spelling in row.spellings if SITE.example(spelling, row) or SITE.used_in(SITE.spelled(spelling))}
    without = [row.name for row in ROWS if row.name not in known]
    assert len(without) < len(ROWS) / 10, without


def test_an_example_shows_what_it_gives() -> None:
    page = SITE.operator_page(ops.table()["full_like"])
    assert "pl.full_like(x, 7.0)" in page and "it gives float32 [4, 8]" in page and "[[7. 7. 7. 7. 7. 7. 7. 7.]" in page


def test_the_catalogue_has_every_error_with_messages() -> None:
    page = SITE.error_catalogue()
    classes = [found for _, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, errors.TilejitError) and found is not errors.TilejitError]
    assert all(f"## {found.__name__}\n\n{inspect.getdoc(found)}" in page for found in classes if found is not errors.RankDeadlockError)
    shown = {path.read_text(encoding="utf-8").strip() for path in (ROOT / "tests" / "golden").glob("*.txt")}
    assert sum(text in page for text in shown) > 50


def test_every_page_has_a_place_and_every_place_a_page() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    places = set(re.findall(r": ([\w/-]+\.md)$", text.partition("nav:")[2], flags=re.MULTILINE))
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md") if "spec" not in path.parts}
    made = {*SITE.MADE.values(), "examples.md", "error-catalogue.md", "ops/index.md"}
    assert places == written | made


def test_links_of_the_first_page_lead_to_pages_of_the_site() -> None:
    page = SITE.at_root((ROOT / "README.md").read_text(encoding="utf-8"))
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", page) if "://" not in link]
    assert links and all((ROOT / "docs" / link).exists() or link in (*SITE.MADE.values(), "examples.md") for link in links), links
