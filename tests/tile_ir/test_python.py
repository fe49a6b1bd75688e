"""Programs printed as Python parse back to equal programs, before and after outlining, and still compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tile_ir.programs import CASES, Case, crossing
from tests.tile_ir.sources import SOURCES
from tilejit.backends.reference import ReferenceExecutable
from tilejit.frontend.text import parse
from tilejit.passes.outline import outline
from tilejit.passes.pipeline import LOWER, Pass, VerifyInstrument, run_pipeline
from tilejit.passes.simplify import simplify
from tilejit.tile_ir.equal import assert_structural_equal, structural_hash
from tilejit.tile_ir.program import Function, Program
from tilejit.tile_ir.verify import verify

STAGES: dict[str, tuple[Pass, ...]] = {"parsed": (), "simplified": (simplify,), "outlined": (outline,), "lowered": LOWER}


def read(name: str) -> Program:
    found = parse(SOURCES[name].text)
    assert isinstance(found, Program)
    return found


def assert_prints_back(program: Program) -> None:
    for concise in (False, True):
        text = program.as_python(concise=concise)
        again = parse(text)
        assert isinstance(again, Program), text
        verify(again)
        assert_structural_equal(again, program)
        assert structural_hash(again) == structural_hash(program)
        assert again.name == program.name


def run(program: Program, name: str) -> list[Any]:
    arguments = SOURCES[name].make_arguments()
    ReferenceExecutable(program).run("main", arguments)
    return arguments


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", SOURCES)
def test_printed_programs_parse_back_and_compute_the_same(name: str, stage: str) -> None:
    parsed = read(name)
    program = run_pipeline(parsed, STAGES[stage], [VerifyInstrument()])
    assert_prints_back(program)
    before, after = run(parsed, name), run(program, name)
    original = SOURCES[name].make_arguments()
    assert any(not np.array_equal(x, y) for x, y in zip(before, original, strict=True)), "the program must do something"
    for x, y in zip(before, after, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("case", [case for case in CASES if case.build is not crossing], ids=lambda case: case.name)
def test_programs_built_by_hand_print_back(case: Case) -> None:
    for passes in STAGES.values():
        assert_prints_back(run_pipeline(case.build(), passes))


def test_text_begins_with_the_name_and_the_import() -> None:
    lines = read("ragged").as_python().split("\n")
    assert lines[:4] == ["# tilejit.program: Example", "import tilejit.language as pl", "", 'M = pl.dynamic("M")']


def test_names_and_comments_of_the_author_survive() -> None:
    text = read("tiles").as_python()
    assert "# doubles and shifts" in text
    assert "t: pl.Tile[[24, 16], pl.FP32] = pl.load(a, [0, 0], [24, 16])" in text
    assert "name_hint='scale'" in text or 'name_hint="scale"' in text


def test_concise_text_nests_values_and_leaves_out_annotations() -> None:
    text = read("parallel and pipeline").as_python(concise=True)
    assert "pl.store(pl.exp(pl.load(a, [i * 4, j], [4, 8])), [i * 4, j], out)" in text or "pl.store(pl.exp(pl.load(a, [n, j], [4, 8])), " in text


def test_scalars_are_written_with_the_parentheses_they_need() -> None:
    text = read("scalar arithmetic").as_python(concise=True)
    assert "(n + 3) * (n - 1) // 2 % 7 - -n" in text
    assert "pl.abs(x) ** 2 / (x - 3.0)" in text


def test_another_prefix_is_used_throughout() -> None:
    text = read("tiles").as_python(prefix="tl")
    assert "import tilejit.language as tl" in text and "pl." not in text
    assert_structural_equal(parse(text), read("tiles"))  # type: ignore[arg-type]


def test_a_launch_with_blocks_prints_as_spmd() -> None:
    text = run_pipeline(read("blocks"), LOWER).as_python()
    assert "with pl.spmd(3):\n            self.part(a, out)" in text
    assert "with pl.spmd(6):\n            self.main_k0(a, out)" in text


def test_a_module_level_function_prints_as_a_function() -> None:
    text = """
import tilejit.language as pl

N = pl.dynamic("N")

@pl.function(type=pl.FunctionType.InCore)
def scale(x: pl.Tensor[[N, 8], pl.FP32], s: pl.Scalar[pl.FP32], y: pl.Out[pl.Tensor[[N, 8], pl.FP32]]):
    y[:] = pl.mul(x, s)
    return y
"""
    function = parse(text)
    assert isinstance(function, Function)
    printed = function.as_python()
    assert printed.startswith("# tilejit.function: scale\n") and "def scale(x: " in printed
    again = parse(printed)
    assert isinstance(again, Function)
    assert_structural_equal(again.program, function.program)
