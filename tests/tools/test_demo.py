"""The demo prints a plain table, and fails when a kernel is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def demo(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tilejit", "demo", *arguments], capture_output=True, text=True, check=False)


def test_the_table_has_one_line_per_case_and_no_escape_codes_outside_a_terminal() -> None:
    done = demo("softmax", "rmsnorm")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["kernel", "shape", "max", "error", "vs", "NumPy", "compile", "ms", "call", "µs"]
    assert [line.split()[0] for line in lines[1:6]] == ["rmsnorm"] * 3 + ["softmax"] * 2
    assert "\x1b" not in done.stdout


def test_a_dynamic_extent_is_compiled_once() -> None:
    found = json.loads(demo("rmsnorm", "--json").stdout)
    cases = [(case["kernel"], case["right"], case["compile_ms"] is None) for case in found["cases"]]
    assert cases == [("rmsnorm", True, reused) for reused in (False, True, True)]
    assert found["failed"] == {}


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [("return a + b", "return a + b + 1e-3", "is above"), ("out[:] = a + b", "out[:] = a + c", "UndefinedVariableError")],
)
def test_a_wrong_or_broken_example_is_reported_and_fails(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    good = (EXAMPLES / "hello_add.py").read_text(encoding="utf-8")
    (tmp_path / "silu.py").write_text((EXAMPLES / "silu.py").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "hello_add.py").write_text(good.replace(old, new), encoding="utf-8")
    done = demo("--examples", tmp_path)
    assert done.returncode == 1
    assert complaint in done.stdout
    assert "silu" in done.stdout  # the others still run


def test_a_folder_without_examples_is_an_error(tmp_path: Path) -> None:
    done = demo("--examples", tmp_path)
    assert done.returncode == 2
    assert "no examples" in done.stderr


def test_an_unknown_command_is_refused_with_the_ones_that_exist() -> None:
    done = subprocess.run([sys.executable, "-m", "tilejit", "dmeo"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "demo" in done.stderr
