"""The text of a specialisation is the program, for every kernel of the examples and of the users' files."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import tilejit.language as pl
from tilejit import ir
from tilejit.jit.specialize import build
from tilejit.jit.specialize.program import Specialization
from tilejit.jit.specialize.text import source_text

ROOT = Path(__file__).parents[3]
FILES = [*sorted((ROOT / "examples").glob("*.py")), *sorted((ROOT / "tests" / "kernels").glob("*.py"))]


class Checked:
    """Counts programs, and compares each with what its text parses to."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._build = build.program_of

    def __call__(self, special: Specialization, *args: object) -> ir.Program:
        program = self._build(special)
        text = source_text(special)
        ir.assert_structural_equal(pl.parse(text), program)
        assert all(len(line) < 400 for line in text.splitlines())
        self.names.append(special.name)
        return program


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Checked:
    watcher = Checked()
    monkeypatch.setattr(build, "program_of", watcher)
    monkeypatch.setenv("TILEJIT_CACHE", "0")
    return watcher


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_kernel_of_a_file_parses_from_its_text(file: Path, checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [str(file)])
    runpy.run_path(str(file), run_name="__main__")
    assert checked.names or "pl.jit" not in file.read_text(encoding="utf-8")
