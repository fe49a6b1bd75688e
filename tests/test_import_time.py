"""Importing the language costs less than NumPy, and loads no compiler."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

import pytest

HEAVY = ("xdsl", "llvmlite", "torch", "triton")


def test_the_language_imports_no_compiler_and_no_framework() -> None:
    code = "import sys, tilejit.language; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "tilejit" in loaded
    assert not set(HEAVY) & set(loaded)


def test_a_kernel_can_be_defined_without_a_compiler() -> None:
    code = "import sys, hello_add; print(*{name.partition('.')[0] for name in sys.modules})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["examples", "src"])}
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment).stdout.split()
    assert not set(HEAVY) & set(loaded)


def own_microseconds(report: str, package: str) -> int:
    """Time spent in the modules of a package itself, from `python -X importtime`."""
    rows = (line.split("|") for line in report.splitlines() if line.startswith("import time:") and "self" not in line)
    return sum(int(own.partition(":")[2]) for own, _, name in rows if name.strip().partition(".")[0] == package)


@pytest.mark.slow
def test_importing_the_language_takes_less_time_than_importing_numpy() -> None:
    ours: list[int] = []
    numpys: list[int] = []
    for _ in range(11):
        done = subprocess.run([sys.executable, "-X", "importtime", "-c", "import numpy, tilejit.language"], capture_output=True, text=True, check=True)
        ours.append(own_microseconds(done.stderr, "tilejit"))
        numpys.append(own_microseconds(done.stderr, "numpy"))
    assert 0 < statistics.median(ours) < statistics.median(numpys)
