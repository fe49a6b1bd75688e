"""Importing the language, or defining a kernel, loads no compiler and little of anything."""

from __future__ import annotations

import os
import subprocess
import sys

HEAVY = ("xdsl", "llvmlite", "torch", "triton")


def test_the_language_imports_no_compiler_and_no_framework() -> None:
    code = "import sys, tilejit.language; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "tilejit" in loaded
    assert not set(HEAVY) & set(loaded)


def test_the_language_imports_few_modules_until_a_name_is_used() -> None:
    """What it costs in time is a row of `bench/run.py start`."""
    code = "import sys, numpy; before = set(sys.modules); import tilejit.language; print(*set(sys.modules) - before)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert 0 < len([name for name in loaded if name.partition(".")[0] == "tilejit"]) <= 5
    assert len(loaded) <= 20, loaded


def test_a_kernel_can_be_defined_without_a_compiler() -> None:
    code = "import sys, hello_add; print(*{name.partition('.')[0] for name in sys.modules})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["examples", "src"])}
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment).stdout.split()
    assert not set(HEAVY) & set(loaded)
