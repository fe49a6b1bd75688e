"""The lines of a kernel's file are those that linecache would give, however they are read."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from tilejit.frontend import source

TEXTS = {
    "plain": "a = 1\n\nb = 2\n",
    "no last newline": "a = 1\nb = 2",
    "empty": "",
    "form feed and separators": "a = 1\n\x0c\nb = '\u2028'  # ü\n",
    "carriage returns": "a = 1\r\nb = 2\r\n",
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252"])
def test_lines_are_those_of_linecache(tmp_path: Path, name: str, encoding: str) -> None:
    path = tmp_path / "kernel.py"
    header = "" if encoding.startswith("utf-8") else f"# coding: {encoding}\n"
    path.write_bytes((header + TEXTS[name]).encode(encoding, "replace"))
    expected = linecache.getlines(str(path))
    linecache.cache.pop(str(path), None)
    source._remember(str(path))
    assert linecache.getlines(str(path)) == expected
    path.write_text("changed = True\n")
    linecache.checkcache(str(path))
    assert linecache.getlines(str(path)) == ["changed = True\n"], "an edit is noticed"


def test_files_that_cannot_be_read_are_left_to_linecache(tmp_path: Path) -> None:
    for name in (str(tmp_path / "missing.py"), "<a cell of nobody>", "relative.py", str(tmp_path)):
        source._remember(name)
        assert name not in linecache.cache
