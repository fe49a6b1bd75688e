# pyright: reportMissingParameterType=false, reportUnusedVariable=false, reportUndefinedVariable=false
"""Source text: found wherever Python can find it, with the positions of the user's file."""

from __future__ import annotations

import ast
import linecache
from pathlib import Path

import pytest

import tilejit.language as pl
from tilejit.errors import ParserError, SourceNotFoundError, TilejitError
from tilejit.frontend.source import function_text, span_of
from tilejit.frontend.text import loads, parse
from tilejit.tile_ir.dialect import type_of
from tilejit.tile_ir.program import Function, Program


def plain(a, b=(1, 2)):
    # before
    c = "# no comment"  # after
    return a, c


class Holder:
    def method(self):
        é = "ü"
        x = é
        text = """
at the margin
"""
        return x, text


def test_lines_and_columns_are_those_of_the_file() -> None:
    text = function_text(plain)
    assignment = text.node.body[0]
    span = span_of(assignment, text.source, "plain")
    line = text.source.line(span.line)
    assert line is not None
    assert line[span.column - 1 : span.end_column - 1] == 'c = "# no comment"'
    assert text.comments == {span.line - 1: "before", span.line: "after"}


def test_indented_definitions_keep_their_columns_and_count_characters() -> None:
    text = function_text(Holder.method)
    second = text.node.body[1]
    span = span_of(second, text.source)
    line = text.source.line(span.line)
    assert line is not None
    assert line[span.column - 1 : span.end_column - 1] == "x = é"
    assert isinstance(text.node.body[-1], ast.Return)


def test_text_registered_with_linecache_is_found() -> None:
    code = "def f(x):\n    return x + 1\n"
    linecache.cache["<cell 7>"] = (len(code), None, list[str](code.splitlines(keepends=True)), "<cell 7>")
    names: dict[str, object] = {}
    exec(compile(code, "<cell 7>", "exec"), names)
    found = names["f"]
    assert callable(found)
    assert function_text(found).source.filename == "<cell 7>"


def test_a_function_without_source_says_what_to_do() -> None:
    names: dict[str, object] = {}
    exec("def hidd" + "en(x):\n    return x\n", names)  # no text that anybody still has
    found = names["hidden"]
    assert callable(found)
    with pytest.raises(SourceNotFoundError, match=r"(?s)the source of `hidden` cannot be found .* register the text with linecache"):
        function_text(found)


def test_carets_stand_under_the_expression() -> None:
    with pytest.raises(TilejitError) as caught:

        @pl.function
        def wrong(x: pl.Tensor[[8, 16], pl.FP32]):
            pl.add(x, pl.exp(undefined_name))  # noqa: F821

    shown = str(caught.value).splitlines()
    assert shown[-1].index("^") == shown[-2].index("undefined_name")
    assert shown[-1].count("^") == len("undefined_name")
    assert ", in wrong" in str(caught.value)


def test_annotations_may_use_names_that_the_body_does_not_capture() -> None:
    rows, columns = 8, 16

    @pl.program
    class P:
        width = 16

        @pl.function(type=pl.FunctionType.InCore)
        def main(self, x: pl.Tensor[[rows, columns], pl.FP32], out: pl.Out[pl.Tensor[[rows, width], pl.FP32]]):
            t: pl.Tile[[rows, columns], pl.FP32] = pl.load(x, [0, 0], [8, 16])
            pl.store(t, [0, 0], out)

    assert isinstance(P, Program)
    assert str(type_of(P.functions["main"].body.block.args[1])) == "Tensor[[8, 16], FP32]"


# text -----------------------------------------------------------------------------------------------------------------

FUNCTION = "@pl.function\ndef f(x: pl.Tensor[[4], pl.FP32]):\n    return x\n"


def test_text_gives_the_one_program_or_function_it_defines(tmp_path: Path) -> None:
    assert isinstance(parse(FUNCTION), Function)
    assert isinstance(parse("import tilejit.language as t\n" + FUNCTION.replace("pl.", "t.")), Function)
    program = parse("@pl.program\nclass P:\n" + FUNCTION.replace("f(", "f(self, ").replace("\n", "\n    ").join(["    ", ""]))
    assert isinstance(program, Program)
    path = tmp_path / "kernel.py"
    path.write_text(FUNCTION)
    assert isinstance(loads(path), Function)
    with pytest.raises(ValueError, match="exactly one program or function, it defines 2"):
        parse(FUNCTION + FUNCTION.replace(" f(", " g("))
    with pytest.raises(ValueError, match="it defines 0"):
        parse("x = 3")


def test_older_names_warn() -> None:
    with pytest.warns(DeprecationWarning, match=r"use pl\.parse"):
        pl.parse_program(FUNCTION)


def test_text_that_is_not_python_has_a_place() -> None:
    with pytest.raises(ParserError, match="this is not Python") as caught:
        parse("@pl.function\ndef f(x:\n    return x\n", "kernel.py")
    assert caught.value.span is not None
    assert caught.value.span.filename == "kernel.py"
    with pytest.raises(ParserError, match="the text cannot be run: ZeroDivisionError"):
        parse("1 / 0")
