"""MLIR text of programs."""

from __future__ import annotations

import pytest

from tests.tile_ir.programs import CASES, Case, ragged
from tilejit.errors import ParserSyntaxError, SourceText, Span
from tilejit.tile_ir.dialect import LoadOp, SpanAttr
from tilejit.tile_ir.equal import assert_structural_equal
from tilejit.tile_ir.text import parse_text, print_text
from tilejit.tile_ir.verify import verify


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_text_parses_back_to_an_equal_program(case: Case) -> None:
    program = case.build()
    parsed = parse_text(print_text(program))
    verify(parsed)
    assert_structural_equal(parsed, program)
    assert parsed.name == program.name


def test_spans_are_left_out_of_text() -> None:
    program = ragged()
    load = next(op for op in program.module.walk() if isinstance(op, LoadOp))
    load.attributes["span"] = SpanAttr(Span(SourceText("kernel.py"), 3, 1, 3, 5))
    assert "kernel.py" not in print_text(program)
    assert load.span is not None, "printing must not change the program"


def test_text_that_is_no_program_is_refused() -> None:
    with pytest.raises(ParserSyntaxError, match="no tile IR text"):
        parse_text('"tile.nonsense"() : () -> ()')
