"""The examples of several ranks agree with torch on one, are short, and run as scripts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANG

PATHS = sorted((Path(__file__).parents[2] / "examples" / "distributed").glob("*.py"))


@pytest.mark.torch
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_ok(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 80
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=HANG, check=False)
    assert (done.returncode, done.stdout) == (0, "OK\n"), done.stderr
