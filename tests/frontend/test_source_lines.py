"""The lines of a kernel's file are those that linecache would give, and those that the file has now."""

from __future__ import annotations

import linecache
import os
from pathlib import Path

import pytest

from tilejit.frontend import texts

TEXTS = {
    "plain": "a = 1\n\nb = 2\n",
    "no last newline": "a = 1\nb = 2",
    "form feed and separators": "a = 1\n\x0c\nb = '\u2028'  # ü\n",
    "carriage returns": "a = 1\r\nb = 2\r\n",
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252"])
def test_lines_are_those_of_linecache(tmp_path: Path, name: str, encoding: str) -> None:
    path = tmp_path / "kernel.py"
    header = "" if encoding.startswith("utf-8") else f"# coding: {encoding}\n"
    path.write_bytes((header + TEXTS[name]).encode(encoding, "replace"))
    assert texts._of_file(str(path)) == linecache.getlines(str(path))
    facts = path.stat()
    path.write_bytes(b"#" * facts.st_size)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert texts._of_file(str(path)) == ["#" * facts.st_size + "\n"], "an edit is noticed, also one that leaves size and time"


def test_files_that_cannot_be_read_are_left_to_linecache(tmp_path: Path) -> None:
    (tmp_path / "damaged.py").write_bytes(b"\xff")
    (tmp_path / "strange.py").write_bytes(b"# coding: nobody\n")
    for name in ("missing.py", "<a cell of nobody>", ".", "damaged.py", "strange.py", "a\0b"):
        assert texts._of_file(str(tmp_path / name)) is None
