"""Every command of the first page and of the tour works, in a folder that has nothing else; in a fresh clone, and from a wheel: make install-test."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


def dry_run(folder: Path, *targets: str) -> subprocess.CompletedProcess[str]:
    """What `make` would do for somebody who says nothing else, whatever this process was started with."""
    said = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "PYTHON", "VENV")}
    return subprocess.run(["make", "--dry-run", *targets], cwd=folder, env=said, capture_output=True, text=True, check=False)


def test_a_fresh_clone_is_set_up_by_what_the_page_says(tmp_path: Path) -> None:
    """`make demo` there: an environment, this package in it, and the demo, which tests/tools/test_demo.py runs."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    done = dry_run(tmp_path, "demo")
    steps = [line for line in done.stdout.splitlines() if line.startswith((".venv/bin/python", "python3 -m"))]
    assert steps == ["python3 -m venv .venv", ".venv/bin/python -m pip install --quiet --editable .", ".venv/bin/python -m tilejit demo"]
    assert {command for kind, command in steps_of(PAGES[0], installs=True) if kind == "sh"} == {"make demo", "pip install -e .", "tilejit doctor"}


PROOF = PAGES[0].read_text(encoding="utf-8").partition("## Prove it")[2].partition("\n## ")[0]
COMMANDS = sorted({command for row in re.findall(r"^\|.*\| (.*) \|$", PROOF, flags=re.MULTILINE) for command in re.findall(r"`([^`]+)`", row)} - {"command"})


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_proof_names_is_there(command: str) -> None:
    """The commands of the table take hours; that each can be given is looked up."""
    program, *arguments = command.split()
    if program == "make":
        assert dry_run(ROOT, *arguments).returncode == 0
    elif program == "pytest":
        assert all((ROOT / path).exists() for path in arguments if path.startswith("tests"))
    elif arguments[:1] == ["-m"]:
        assert (ROOT / arguments[1].replace(".", "/") / "__main__.py").exists()
    elif program == "python":
        text = (ROOT / arguments[0]).read_text(encoding="utf-8")
        assert all(f'"{suite}"' in text for suite in arguments[1:] if not suite.startswith("--") and suite.isalpha())
    else:
        assert (ROOT / command).exists()
