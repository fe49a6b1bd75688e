"""Every command of the first page and of the tour works, in a folder that has nothing else; from a wheel: make install-test."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.docs.commands import PAGES, ROOT, run_page, steps_of


def test_the_commands_of_the_pages_work(tmp_path: Path) -> None:
    """With the environment of the tests; the Python of the pages runs in test_fences.py."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, module in (("python", ""), ("tilejit", " -m tilejit")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{module} "$@"\n')
        (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src"), "TILEJIT_CACHE_DIR": str(tmp_path / "cache")}
    seen: set[str] = set()
    for page in reversed(PAGES):
        if not all(command in seen for kind, command in steps_of(page) if kind == "sh"):
            seen.update(run_page(page, tmp_path, environment, python=False))
    assert {"tilejit doctor", "python softmax.py", "tilejit cache ls"} <= seen
    assert (tmp_path / "softmax.html").stat().st_size > 10_000
