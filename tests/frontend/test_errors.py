"""Everything that the language does not have is refused by name, with a caret under it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tilejit.language as pl
from tests.frontend.kernels import PARAMS, kernel, result, source
from tilejit.errors import (
    ArgumentError,
    InternalError,
    InvalidOperationError,
    ParserError,
    ParserSyntaxError,
    ParserTypeError,
    SSAViolationError,
    StaticAssertionError,
    TilejitError,
    TilejitWarning,
    UndefinedVariableError,
    UnsupportedFeatureError,
)
from tilejit.frontend import statements
from tilejit.frontend.text import parse
from tilejit.frontend.values import describe_value


@pytest.mark.parametrize(
    ("statement", "error", "message", "caret"),
    [
        ("for i in range(4):\n    pass", UnsupportedFeatureError, "plain `range` is not a loop", "range(4)"),
        ("for i in [1, 2]:\n    pass", UnsupportedFeatureError, "cannot loop over `[1, 2]`", "[1, 2]"),
        ("for i in x:\n    pass", UnsupportedFeatureError, "cannot loop over `x`", "x"),
        ("for i in pl.range(3):\n    pass\nelse:\n    pass", UnsupportedFeatureError, "a loop cannot have `else`", "pass"),
        ("try:\n    pass\nfinally:\n    pass", UnsupportedFeatureError, "cannot contain try", "try:"),
        ("def g():\n    pass", UnsupportedFeatureError, "cannot contain a nested function", "def g():"),
        ("class C:\n    pass", UnsupportedFeatureError, "cannot contain a class", "class C:"),
        ("import math", UnsupportedFeatureError, "cannot contain import", "import math"),
        ("global g", UnsupportedFeatureError, "cannot contain global", "global g"),
        ("assert x.shape[0] == 9, 'nine rows'", StaticAssertionError, "assertion failed: nine rows", None),
        ("del t", UnsupportedFeatureError, "cannot contain del", "del t"),
        ("raise ValueError", UnsupportedFeatureError, "cannot contain raise", "raise ValueError"),
        ("match 3:\n    case 3:\n        pass", UnsupportedFeatureError, "cannot contain match", None),
        ("f = lambda: 3", UnsupportedFeatureError, "cannot contain a lambda", "lambda: 3"),
        ("n = [i for i in (1, 2)]", UnsupportedFeatureError, "cannot contain a list comprehension", "[i for i in (1, 2)]"),
        ("n = {1, 2}", UnsupportedFeatureError, "cannot contain a set", "{1, 2}"),
        ("n = (m := 3)", UnsupportedFeatureError, "cannot contain `:=`", "m := 3"),
        ("a, b = t", ParserTypeError, "cannot be unpacked into 2 names", "a, b"),
        ("a, b = (1, 2, 3)", ParserTypeError, "3 values for 2 names", "a, b"),
        ("a, *b = (1, 2, 3)", UnsupportedFeatureError, "`*` in an assignment", "a, *b"),
        ("t.name = 3", UnsupportedFeatureError, "an attribute cannot be assigned", "t.name"),
        ("n = t.shpae", ParserTypeError, "has no attribute `shpae`", "t.shpae"),
        ("t[0][1] = 3.0", UnsupportedFeatureError, "a chained subscript cannot be written", "t[0][1]"),
        ("n = pl.addd(t, t)", InvalidOperationError, "`pl.addd` is not part of the language", "pl.addd"),
        ("n = pl.tile.lod(x)", InvalidOperationError, "`pl.tile.lod` is not part of the language", "pl.tile.lod"),
        ("n = pl.add(t, t, t)", ArgumentError, "pl.add takes 2 arguments, got 3", "pl.add(t, t, t)"),
        ("n = pl.add(t, x)", ArgumentError, "takes either tensors or tiles", "pl.add(t, x)"),
        ("n = pl.exp(t, inptu=3)", ArgumentError, "has no parameter `inptu`", "pl.exp(t, inptu=3)"),
        ("n = pl.exp(**t)", UnsupportedFeatureError, "`**` in a call", "t"),
        ("n = undefined", UndefinedVariableError, "`undefined` is not defined", "undefined"),
        ("n = pl.range(3)", ParserSyntaxError, "pl.range is not a value", "pl.range(3)"),
        ("n = input(t)", UnsupportedFeatureError, "plain `input` in a kernel", "input(t)"),
        ("n = min(t, 3)", ParserTypeError, "`min` works on scalars, got Tile", "min(t, 3)"),
        ("pl.yield_(t)", ParserSyntaxError, "pl.yield_ needs names on its left", "pl.yield_(t)"),
        ("pl.cond(True)", ParserSyntaxError, "pl.cond belongs first", "pl.cond(True)"),
        ("break", ParserError, "", None),
        ("pl.static_assert(cfg[0] == 1)", ParserError, "needs a compile-time condition", "pl.static_assert(cfg[0] == 1)"),
        ("pl.static_assert(x.shape[0] == 9, 'nine rows')", ParserError, "static assertion failed: nine rows", None),
        ("n = pl.const(3.5, pl.INT32)", TilejitError, "expected an integer (INT32), got 3.5", "pl.const(3.5, pl.INT32)"),
        ("n = pl.const(cfg[0], pl.INT32)", ParserTypeError, "pl.const takes a compile-time number", None),
        ("while True:\n    t = pl.neg(t)", ParserTypeError, "this loop never ends", None),
        ("while cfg[0]:\n    t = pl.neg(t)", ParserTypeError, "the condition of a `while` must be a BOOL scalar", "cfg[0]"),
        ("for i in pl.range():\n    pass", ArgumentError, "pl.range needs at least a stop", "pl.range()"),
        ("for i in pl.range(0, 4, 0):\n    pass", ArgumentError, "the step of pl.range is 0", None),
        ("for i in pl.range(2.5):\n    pass", TilejitError, "a loop bound must be an integer, got 2.5", None),
        ("for i in pl.pipeline(4):\n    pass", ArgumentError, "pl.pipeline needs a compile-time `stage`", "pl.pipeline(4)"),
        ("for i in pl.unroll(cfg[0]):\n    pass", ParserTypeError, "pl.unroll needs compile-time bounds", "pl.unroll(cfg[0])"),
        ("for i in pl.parallel(4):\n    if i == 2:\n        break", UnsupportedFeatureError, "break has no meaning in a pl.parallel loop", "break"),
        ("for i in pl.unroll(4):\n    continue", UnsupportedFeatureError, "continue has no meaning in a pl.unroll loop", "continue"),
        ("for i in pl.range(4):\n    return t", UnsupportedFeatureError, "return inside a loop", "return t"),
        ("n: pl.Tile[[4, 4], pl.FP32] = t", ParserTypeError, "`n` is annotated Tile[[4, 4], FP32], but the value is Tile[[8, 16], FP32]", None),
        ("n: pl.AtomicType = 3", ParserTypeError, "is not a type of the language", "pl.AtomicType"),
        ("n: undefined = 3", ParserTypeError, "this annotation cannot be evaluated: NameError", "undefined"),
        ("n = t if x else t", ParserTypeError, "the condition must be a BOOL scalar", "x"),
        ("n = t if cfg[0] > 1 else 3.0", ParserTypeError, "the two sides have different types", None),
        ("n = not t", ParserTypeError, "the operand of `not` must be a BOOL scalar", "not t"),
        ("n = 1 < cfg[0] < t", UnsupportedFeatureError, "a chained comparison is one of scalars, or one of tensors or tiles", "1 < cfg[0] < t"),
        ("n = cfg[0] in (1, 2)", UnsupportedFeatureError, "`in` works on compile-time values only", None),
        ("n = (1, 2)[cfg[0]]", ParserTypeError, "an index into a tuple must be known while compiling", "cfg[0]"),
        ("n = ...", UnsupportedFeatureError, "cannot contain Ellipsis", "..."),
        ("n = t.sum(axis=[cfg[0], 0])", ParserTypeError, "`axis` of sum must be known while compiling, got (Scalar[INT32], 0)", "t.sum(axis=[cfg[0], 0])"),
        ("n = t.sum(axis=[cfg[0]])", ParserTypeError, "`axis` of sum must be known while compiling, got (Scalar[INT32])", None),
        ("n = x[{'a': (t, {2: cfg[0]})}]", UnsupportedFeatureError, "cannot index with {'a': (Tile[[8, 16], FP32], {2: Scalar[INT32]})}", None),
    ],
)
def test_a_mistake_is_named_and_pointed_at(statement: str, error: type[TilejitError], message: str, caret: str | None) -> None:
    with pytest.raises(error) as caught:
        kernel(f"t = pl.load(x, [0, 0], [8, 16])\n{statement}\nout[:] = x")
    assert message in caught.value.message
    assert not isinstance(caught.value, InternalError)
    span = caught.value.span
    assert span is not None
    if caret is not None:
        line = span.source.line(span.line)
        assert line is not None
        assert line[span.column - 1 : span.end_column - 1] == caret


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ("x", ParserTypeError, "parameter `x` has no annotation"),
        ("x: pl.Tensor", ParserTypeError, "this annotation needs a shape and a data type"),
        ("x: pl.Out[pl.Tensor]", ParserTypeError, "this annotation needs a shape and a data type"),
        ("x: int", ParserTypeError, "is not a type of the language"),
        ("x: pl.Tensor[[8], 3]", ParserTypeError, "takes a data type"),
        ("x: pl.Scalar", ParserTypeError, "needs a data type"),
        ("*x: pl.Tensor[[8], pl.FP32]", UnsupportedFeatureError, "cannot take `*x`"),
        ("**x", UnsupportedFeatureError, "cannot take `**x`"),
    ],
)
def test_parameters_need_types(params: str, error: type[TilejitError], message: str) -> None:
    with pytest.raises(error) as caught:
        parse("from __future__ import annotations\n" + source("pass", params))
    assert message in caught.value.message
    assert caught.value.span is not None


@pl.jit
def returns_a_dict(x: pl.Tensor):
    return {"a": x + 1.0, "b": 2}


def test_a_returned_dict_is_described_by_its_members() -> None:
    with pytest.raises(ParserTypeError) as caught:
        returns_a_dict(np.zeros((2, 3), np.float32))
    assert caught.value.message == "a kernel returns tensors, tiles and scalars, got {'a': Tensor[[2, 3], FP32], 'b': 2}"


def test_a_container_in_itself_is_described_once() -> None:
    around: list[object] = [1]
    around.append(around)
    assert describe_value(around) == "(1, …)"


def test_strict_ssa_forbids_rebinding_and_subscript_writes() -> None:
    head = f"@pl.function(type=pl.FunctionType.InCore, strict_ssa=True)\ndef k({PARAMS}):\n"
    with pytest.raises(SSAViolationError, match="`t` is bound twice") as caught:
        parse(head + "    t = pl.neg(x)\n    t = pl.neg(t)\n    pl.assemble(out, t, [0, 0])\n")
    assert caught.value.previous_span is not None
    assert caught.value.previous_span.line == 3
    with pytest.raises(UnsupportedFeatureError, match="strict_ssa forbids subscript writes"):
        parse(head + "    out[:] = x\n")
    parse(head + "    t = pl.neg(x)\n    u = pl.neg(t)\n    done = pl.assemble(out, u, [0, 0])\n    return done\n")


def test_a_bug_of_ours_is_reported_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(ctx: object, node: object) -> None:
        raise KeyError("lost")

    monkeypatch.setitem(statements._HANDLERS, statements.ast.Pass, broken)
    with pytest.raises(InternalError, match="KeyError: 'lost'") as caught:
        kernel("pass\nout[:] = x")
    assert caught.value.span is not None
    assert "report it" in (caught.value.hint or "")


def test_a_row_of_a_tile_stays_two_dimensional_and_says_so() -> None:
    body = "t = pl.load(x, [0, 0], [8, 16])\nout[:] = x\npl.store(t[3], [0, 0], out)\npl.store(t[:, 5], [1, 0], out)"
    with pytest.warns(TilejitWarning, match="a tile with one row"):
        x, out = result(body)
    np.testing.assert_array_equal(out[0], x[3])
    np.testing.assert_array_equal(out[1, :8], x[:, 5])


def test_static_print_prints_while_compiling(capsys: pytest.CaptureFixture[str]) -> None:
    kernel("pl.static_print('shape', x.shape, f'{x.dtype} {cfg}')\nout[:] = x")
    assert capsys.readouterr().out.splitlines()[0] == "shape (8, 16) FP32 Tensor[[4], INT32]"


def test_a_condition_known_while_compiling_decides_what_is_read() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x, out = result("if x.shape[0] == 9 and undefined_name:\n    pass\nelif True or undefined_name:\n    out[:] = pl.neg(x)")
    np.testing.assert_array_equal(out, -x)


def test_decorators_refuse_what_they_cannot_decorate() -> None:
    with pytest.raises(ArgumentError, match=r"@pl\.function decorates functions"):
        pl.function(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"@pl\.program decorates classes"):
        pl.program(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"`type` takes a pl\.FunctionType"):
        pl.function(type="InCore")  # type: ignore[arg-type]
    with pytest.raises(ParserTypeError, match="program Empty has no functions"):

        @pl.program
        class Empty:
            pass

    with pytest.warns(DeprecationWarning, match="func_attr"):

        @pl.function(attrs={"split": 1})
        def with_attributes(x: pl.Tensor[[4], pl.FP32]):
            pl.func_attr({"other": 2})

    assert with_attributes.op.static("attrs") == {"split": 1, "other": 2}


def test_compile_time_arguments_must_be_constants_that_text_can_hold() -> None:
    with pytest.raises(ParserTypeError, match="`mode` of cast takes a number, string, data type or enum member"):
        kernel("out[:] = pl.cast(x, pl.FP32, mode=pl)")


def test_failures_of_a_module_text_show_the_line() -> None:
    with pytest.raises(ParserError, match="NameError") as caught:
        parse("x = 3\ny = undefined\n")
    assert caught.value.source_lines == ("y = undefined\n",)
    with pytest.raises(ParserTypeError, match="takes its shape as a list") as caught:
        parse("@pl.function\ndef f(x: pl.Tensor[3, pl.FP32]):\n    pass\n")
    assert caught.value.span is not None
    assert caught.value.span.line == 2


def test_a_loop_over_something_else_with_break_is_still_named() -> None:
    with pytest.raises(UnsupportedFeatureError, match="cannot loop over `x`"):
        kernel("for i in x:\n    if cfg[0] == 1:\n        break\nout[:] = x")
