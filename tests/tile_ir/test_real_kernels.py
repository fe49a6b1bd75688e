"""Users' kernels and the examples: what they compile to prints back, before and after lowering."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.tile_ir.test_python import assert_prints_back
from tilejit import compiler, ir
from tilejit.passes.pipeline import LOWER, VerifyInstrument, run_pipeline
from tilejit.tile_ir.program import Function, Program
from tilejit.tile_ir.verify import verify

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "tests/kernels").glob("0*.py"), *(ROOT / "examples").glob("*.py")])


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """Every program that is compiled during the test."""
    found: list[Program] = []
    plain = compiler.compile_program

    def collecting(program: Program | Function, *args: Any, **kwargs: Any) -> Any:
        found.append(program.program if isinstance(program, Function) else program)
        return plain(program, *args, **kwargs)

    monkeypatch.setattr(compiler, "compile_program", collecting)
    monkeypatch.setattr(ir, "compile_program", collecting)
    monkeypatch.setenv("TILEJIT_PLATFORM", "reference")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_a_file_compiles_prints_back(path: Path, compiled: list[Program], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    programs = {program.as_python(): program for program in compiled}
    assert programs
    for program in programs.values():
        verify(program)
        assert_prints_back(program)
        assert_prints_back(run_pipeline(program, LOWER, [VerifyInstrument()]))
