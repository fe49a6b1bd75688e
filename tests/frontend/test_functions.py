# pyright: reportMissingParameterType=false, reportCallIssue=false
"""Calls between functions: methods, module-level functions, inline functions; what they return and write."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.frontend.kernels import applied, checked, data, kernel, ops, result, run
from tilejit import ir
from tilejit.errors import ArgumentError, DTypeError, NoWriteError, ParserSyntaxError, ParserTypeError, ShapeError, TilejitError, UnsupportedFeatureError
from tilejit.frontend.results import as_program
from tilejit.frontend.text import parse
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.program import Function, Program

M, N = 8, 16


@pl.function(type=pl.FunctionType.InCore)
def scaled(x: pl.Tensor[[M, N], pl.FP32], factor: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    out[:] = pl.mul(x, factor)


@pl.program
class Two:
    @pl.function(type=pl.FunctionType.InCore)
    def both(self, x: pl.Tensor[[M, N], pl.FP32], low: pl.Out[pl.Tensor[[M, N], pl.FP32]], high: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
        low[:] = pl.sub(x, 1.0)
        high[:] = pl.add(x, 1.0)
        return high, low

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[M, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
        a = pl.create_tensor([M, N], dtype=pl.FP32)
        b = pl.create_tensor([M, N], dtype=pl.FP32)
        upper, _ = self.both(x, a, b)
        doubled = scaled(upper, 2, a)
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(doubled, upper)


def test_a_call_evaluates_to_the_buffers_that_the_callee_returns_or_writes() -> None:
    program = checked(Two)
    x, out = data(M, N), np.empty((M, N), np.float32)
    run(program, x, out)
    np.testing.assert_allclose(out, (x + 1) * 2 + (x + 1), rtol=1e-5)
    assert list(program.functions) == ["scaled", "both", "main"]
    assert not [op for op in ops(program, d.CallOp, "main") if op.results]


def test_numbers_become_constants_of_the_parameters_dtype() -> None:
    call = ops(Two, d.CallOp, "main")[1]
    assert str(d.type_of(call.args[1])) == "Scalar[FP32]"


def test_a_function_returns_values_that_are_no_parameters() -> None:
    text = """
@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def square(self, x: pl.Tensor[[8, 16], pl.FP32]):
        return pl.mul(x, x), x

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        y, same = self.square(x)
        out[:] = pl.add(y, same)
"""
    program = parse(text)
    assert isinstance(program, Program)
    checked(program)
    assert program.functions["square"].static("attrs") == {"returns": (("value",), ("param", 0))}
    x, out = data(8, 16), np.empty((8, 16), np.float32)
    run(program, x, out)
    np.testing.assert_allclose(out, x * x + x, rtol=1e-6)


def test_values_returned_by_an_entry_become_hidden_outputs() -> None:
    text = """
M = pl.dynamic("M")
@pl.program
class P:
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[M, 16], pl.FP32], out: pl.Out[pl.Tensor[[M, 16], pl.FP32]]):
        out[:] = x
        return pl.exp(x), out, pl.neg(x)
"""
    program = parse(text)
    assert isinstance(program, Program)
    main = program.functions["main"]
    assert main.static("params") == ("x", "out", "result", "result_1")
    assert main.static("directions") == ("In", "Out", "Out", "Out")
    attrs = main.static("attrs")
    assert isinstance(attrs, dict)
    assert (attrs["hidden"], attrs["returns"]) == (2, (("param", 2), ("param", 1), ("param", 3)))
    x = data(5, 16)
    out, first, second = (np.empty_like(x) for _ in range(3))
    run(program, x, out, first, second)
    np.testing.assert_array_equal(second, -x)
    np.testing.assert_allclose(first, np.exp(x), rtol=1e-6)


def test_a_returned_value_of_unknown_extent_asks_for_an_output_parameter() -> None:
    with pytest.raises(ShapeError, match="known only at run time") as caught:
        parse(
            "@pl.program\n"
            "class P:\n"
            "    @pl.function\n"
            "    def main(self, x: pl.Tensor[[8, 16], pl.FP32]):\n"
            "        return pl.neg(x[0 : pl.cast(x[0, 0], pl.INDEX), :])\n"
        )
    assert "Out" in (caught.value.hint or "")


def test_dynamic_symbols_of_the_callee_are_bound_by_the_arguments() -> None:
    text = """
R = pl.dynamic("R")
S = pl.dynamic("R")
@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def twice(self, x: pl.Tensor[[R, 16], pl.FP32], out: pl.Out[pl.Tensor[[R, 16], pl.FP32]]):
        out[:] = pl.mul(x, 2.0)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[S, 16], pl.FP32], out: pl.Out[pl.Tensor[[S, 16], pl.FP32]]):
        n = pl.tensor.dim(x, 0)
        tmp = pl.create_tensor([n, 16], dtype=pl.FP32)
        other = pl.create_tensor([n + 1 - 1, 16], dtype=pl.FP32)
        tmp = self.twice(x, tmp)
        other = self.twice(tmp, other)
        out = self.twice(other, out)
"""
    program = parse(text)
    assert isinstance(program, Program)
    checked(program)
    types = [str(d.type_of(op.result)) for op in ops(program, d.CreateOp, "main")]
    assert types == ["Tensor[[R_1, 16], FP32]", "Tensor[[?, 16], FP32]"]
    assert len(ops(program, d.CheckOp, "main")) == 2
    for rows in (1, 7):
        x, out = data(rows, 16), np.empty((rows, 16), np.float32)
        run(program, x, out)
        np.testing.assert_array_equal(out, x * 8)


def test_a_symbol_used_as_a_value_is_the_extent_of_a_parameter() -> None:
    text = """
R = pl.dynamic("R")
@pl.function
def f(a: pl.Tensor[[4], pl.FP32], x: pl.Tensor[[16, R], pl.FP32], out: pl.Out[pl.Tensor[[16, R], pl.FP32]]):
    tmp = pl.create_tensor([16, R], dtype=pl.FP32)
    tmp[:] = x
    for i in pl.range(R // 2):
        tmp[0:16, i * 2] = x[:, i * 2 + 1]
    out[:] = tmp
"""
    found = parse(text)
    assert isinstance(found, Function)
    program = checked(found.program)
    assert ops(program, d.DimOp)[0].source is program.functions["f"].body.block.args[1]
    x, out = data(16, 6), np.empty((16, 6), np.float32)
    run(program, data(4), x, out)
    expected = x.copy()
    expected[:, 0::2] = x[:, 1::2]
    np.testing.assert_array_equal(out, expected)


def test_rebinding_a_dimension_forgets_its_symbol() -> None:
    text = """
R = pl.dynamic("R")
@pl.function
def f(x: pl.Tensor[[R, 16], pl.FP32]):
    a = b = pl.tensor.dim(x, 0)
    a = a - 1
    t = pl.create_tensor([a, 16], dtype=pl.FP32)
    u = pl.create_tensor([b, 16], dtype=pl.FP32)
"""
    found = parse(text)
    assert isinstance(found, Function)
    assert [str(d.type_of(op.result)) for op in ops(found.program, d.CreateOp)] == ["Tensor[[?, 16], FP32]", "Tensor[[R, 16], FP32]"]


# inline functions -----------------------------------------------------------------------------------------------------

FACTOR = 3.0


@pl.inline
def times(x, factor=FACTOR):
    return pl.mul(x, factor)


@pl.inline
def store_twice(x, out):
    y = times(times(x), factor=0.5)
    pl.store(y, [0, 0], out)


def test_inline_functions_see_the_names_around_their_definition() -> None:
    x, out = result("FACTOR = 100.0\nt = pl.load(x, [0, 0], [8, 16])\nstore_twice(t, out)", names={"store_twice": store_twice})
    np.testing.assert_allclose(out, x * 1.5, rtol=1e-6)


def test_errors_in_inline_functions_show_the_calls() -> None:
    with pytest.raises(ParserTypeError, match="`store_twice` has no return value"):
        kernel("t = pl.load(x, [0, 0], [8, 16])\nu = store_twice(t, out)", names={"store_twice": store_twice})
    with pytest.raises(ArgumentError, match=r"pl\.mul needs `rhs`") as caught:
        kernel(
            "t = pl.load(x, [0, 0], [8, 16])\nbroken(t, out)",
            before="@pl.inline\ndef inner(x):\n    return pl.mul(x)\n@pl.inline\ndef broken(x, out):\n    pl.store(inner(x), [0, 0], out)",
        )
    span = caught.value.span
    assert span is not None
    assert span.parent is not None
    assert span.parent.parent is not None
    assert (span.function, span.parent.function, span.parent.parent.function) == ("inner", "broken", "k")
    assert "called from" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("times()", "`times` takes 2 arguments, `x` is missing"),
        ("times(t, 1.0, 2.0)", "`times` takes 2 arguments, got 3"),
        ("times(t, scale=2.0)", "`times` has no parameter `scale`"),
        ("times(t, x=t)", "`times` got `x` twice"),
    ],
)
def test_arguments_of_inline_functions_are_bound_by_name(call: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        kernel(f"t = pl.load(x, [0, 0], [8, 16])\nt = {call}\npl.store(t, [0, 0], out)", names={"times": times})


def test_annotations_of_inline_functions_are_checked() -> None:
    before = (
        "R = pl.dynamic('R')\n"
        "@pl.inline\n"
        "def half(a: pl.Tensor[[R, 16], pl.FP32], out: pl.Tensor[[8, 16], pl.FP32]):\n"
        "    out[0:R, :] = a\n"
        "    out[R : R * 2, :] = pl.neg(a)"
    )
    x, out = result("half(x[0:4, :], out)", before=before)
    np.testing.assert_array_equal(out, np.concatenate([x[:4], -x[:4]]))
    with pytest.raises(ShapeError, match="parameter `out` of `half` needs extent 8 in dim 0, got 4"):
        kernel("half(x, out[0:4, :])", before=before)
    with pytest.raises(DTypeError, match="takes FP32 data, got INT32"):
        kernel("half(pl.reshape(cfg, [1, 4]), out)", before=before)


def test_inline_methods_are_spliced() -> None:
    text = """
@pl.program
class P:
    @pl.function(type=pl.FunctionType.Inline)
    def plus(self, x: pl.Tensor[[8, 16], pl.FP32], out: pl.Tensor[[8, 16], pl.FP32]):
        out[:] = pl.add(x, 1.0)
        return out

    @pl.function(type=pl.FunctionType.InCore)
    def main(self, x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        return self.plus(x, out)
"""
    program = parse(text)
    assert isinstance(program, Program)
    assert list(program.functions) == ["main"]
    assert applied(program) == ["add"]


def test_module_level_inline_functions_are_spliced() -> None:
    before = "@pl.function(type=pl.FunctionType.Inline)\ndef plus(x, number):\n    return pl.add(x, number)"
    assert applied(kernel("out[:] = plus(plus(x, 1.0), 2.0)", before=before)) == ["add", "add"]


def test_module_level_inline_functions_place_their_scopes_where_they_may() -> None:
    before = "@pl.function(type=pl.FunctionType.Inline{})\ndef plus(x, out):\n    with pl.scope():\n        out[:] = pl.add(x, 1.0)"
    assert applied(kernel("plus(x, out)", before=before.format(", auto_scope=False"))) == ["add"]
    with pytest.raises(TilejitError, match="auto_scope=False"):
        kernel("plus(x, out)", before=before.format(""))


def test_recursion_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="`loop` calls itself"):
        kernel("loop(x)\nout[:] = x", before="@pl.inline\ndef loop(x):\n    loop(x)")
    text = (
        "@pl.program\n"
        "class P:\n"
        "    @pl.function\n"
        "    def a(self, x: pl.Tensor[[8], pl.FP32]):\n"
        "        self.b(x)\n"
        "    @pl.function\n"
        "    def b(self, x: pl.Tensor[[8], pl.FP32]):\n"
        "        self.a(x)\n"
    )
    with pytest.raises(UnsupportedFeatureError, match=r"`a` calls itself \(a → b → a\)"):
        parse(text)


# arguments ------------------------------------------------------------------------------------------------------------

CALLEE = """
@pl.function(type=pl.FunctionType.InCore)
def callee(a: pl.Tensor[[8, 16], pl.FP32], s: pl.Scalar[pl.FP32], o: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    o[:] = pl.mul(a, s)
"""


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ("callee(x, 1.0)", ArgumentError, "`callee` takes 3 arguments, got 2, `o` is missing"),
        ("callee(x, 1.0, o=out)", ArgumentError, "`callee` takes positional arguments, got `o=`"),
        ("callee(x, x, out)", ParserTypeError, r"parameter `s` of `callee` takes a FP32 scalar, got Tensor"),
        ("callee(x, cfg[0], out)", DTypeError, "parameter `s` of `callee` takes a FP32 scalar, got INT32"),
        ("callee(x[0:4, :], 1.0, out)", ShapeError, "parameter `a` of `callee` needs extent 8 in dim 0, got 4"),
        ("callee(x[0], 1.0, out)", ShapeError, "parameter `a` of `callee` has 2 dimensions, got 1"),
        ("callee(pl.reshape(cfg, [2, 2]), 1.0, out)", DTypeError, "parameter `a` of `callee` takes FP32 data, got INT32"),
        ("callee(pl.load(x, [0, 0], [8, 16]), 1.0, out)", ParserTypeError, "parameter `a` of `callee` takes a tensor, got Tile"),
        ("callee(x, 1.0, pl.neg(x))", ParserTypeError, "parameter `o` of `callee` is written and needs a tensor in memory"),
    ],
)
def test_arguments_must_fit_the_parameters(call: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        kernel(f"{call}\nout[:] = x", before=CALLEE)


def test_the_result_of_an_operator_is_spilled_for_a_callee() -> None:
    x, out = result("callee(pl.neg(x), 2.0, out)", before=CALLEE)
    np.testing.assert_array_equal(out, -x * 2)


def test_names_of_functions_are_unique_in_a_program() -> None:
    text = CALLEE + (
        "\n"
        "@pl.program\n"
        "class P:\n"
        "    @pl.function\n"
        "    def callee(self, a: pl.Tensor[[8, 16], pl.FP32], o: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):\n"
        "        callee(a, 1.0, o)\n"
    )
    with pytest.raises(ParserSyntaxError, match="the program has a function `callee` of its own"):
        parse(text)


# outputs --------------------------------------------------------------------------------------------------------------


def test_an_output_that_is_only_rebound_is_an_error_under_that_line() -> None:
    with pytest.raises(NoWriteError, match="the output `out` is never written") as caught:
        kernel("t = pl.neg(x)\nout = pl.add(x, 1.0)\nout = pl.neg(out)")
    assert caught.value.span is not None
    assert caught.value.source_lines == ("    out = pl.add(x, 1.0)\n",)
    assert "pl.store" in (caught.value.hint or "")


def test_an_output_that_is_not_mentioned_is_an_error_at_the_parameter() -> None:
    with pytest.raises(NoWriteError) as caught:
        kernel("t = pl.neg(x)")
    assert caught.value.span is not None
    assert (caught.value.span.line, caught.value.span.column) == (3, 70)


@pytest.mark.parametrize(
    "write",
    [
        "a[0:4, :] = x[4:8, :]",
        "pl.store(pl.load(x, [0, 0], [8, 16]), [0, 0], a)",
        "a[0, 0] = 1.0",
        "pl.assemble(a, x[0:4, :], [0, 0])",
        "v = pl.reshape(a, [128])\n    v[0:16] = x[0]",
        "b = a[2:4]\n    b[0] = x[0]",
        "for i in pl.range(3):\n        b = a\n        if i == 2:\n            b[:] = x",
        "with pl.at(level=pl.Level.CORE_GROUP):\n        a[:] = x",
        "callee(x, 2.0, a)",
    ],
)
def test_every_way_to_write_a_plain_parameter_makes_it_an_output(write: str) -> None:
    found = parse(
        (CALLEE if "callee" in write else "") + f"@pl.function\ndef k(x: pl.Tensor[[8, 16], pl.FP32], a: pl.Tensor[[8, 16], pl.FP32]):\n    {write}\n"
    )
    assert isinstance(found, Function)
    assert found.op.static("directions") == ("In", "InOut")


def test_return_annotations_are_checked() -> None:
    head = "@pl.function\ndef k(x: pl.Tensor[[8, 16], pl.FP32])"
    parse(f"{head} -> tuple[pl.Tensor[[8, 16], pl.FP32], pl.Scalar[pl.FP32]]:\n    return x, x[0, 0]\n")
    with pytest.raises(ParserTypeError, match="annotated with 1 result, but returns 2"):
        parse(f"{head} -> pl.Tensor[[8, 16], pl.FP32]:\n    return x, x\n")
    with pytest.raises(ParserTypeError, match=r"annotated to return Tensor\[\[8, 16\], FP16\], but returns Tensor\[\[8, 16\], FP32\]"):
        parse(f"{head} -> pl.Tensor[[8, 16], pl.FP16]:\n    return x\n")


def test_a_function_can_be_compiled_by_itself() -> None:
    found = parse(
        CALLEE
        + (
            "@pl.function\n"
            "def k(x: pl.Tensor[[8, 16], pl.FP32]):\n"
            "    y = pl.create_tensor([8, 16], dtype=pl.FP32)\n"
            "    callee(x, 2.0, y)\n"
            "    return pl.add(y, x)\n"
        )
    )
    assert isinstance(found, Function)
    program = as_program(found)
    assert list(program.entries) == ["k"]
    x, out = data(8, 16), np.empty((8, 16), np.float32)
    run(program, x, out)
    np.testing.assert_allclose(out, x * 3, rtol=1e-6)
    assert found.op.static("params") == ("x",), "the function itself stays as it was"


def test_an_entry_returns_a_scalar_as_a_number() -> None:
    program = parse("@pl.program\nclass P:\n    @pl.function\n    def main(self, x: pl.Tensor[[8, 16], pl.FP32]):\n        return x[0, 1]\n")
    x = np.random.default_rng(0).standard_normal((8, 16), np.float32)
    assert ir.compile(program)(x) == x[0, 1]


def test_functions_of_a_program_say_what_they_are() -> None:
    program = checked(parse_program(FACTS))
    kernel, main = program.functions["k"], program.functions["main"]
    assert (kernel.func_type, main.func_type) == (pl.FunctionType.InCore, pl.FunctionType.Orchestration)
    shape = "Tensor[[8, 16], FP32]"
    assert [(item.name, str(item.type), item.direction) for item in kernel.params] == [("x", shape, "In"), ("o", shape, "Out")]
    assert [str(item) for item in kernel.return_types] == ["Tensor[[8, 16], FP32]"]
    assert main.return_types == []


FACTS = """
@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def k(self, x: pl.Tensor[[8, 16], pl.FP32], o: pl.Out[pl.Tensor[[8, 16], pl.FP32]]) -> pl.Tensor[[8, 16], pl.FP32]:
        return pl.store(pl.load(x, [0, 0], [8, 16]), [0, 0], o)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[8, 16], pl.FP32], o: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        self.k(x, o)
"""


def parse_program(text: str) -> Program:
    found = parse(text)
    assert isinstance(found, Program)
    return found
