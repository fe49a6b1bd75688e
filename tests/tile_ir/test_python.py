"""Programs printed as Python parse back to equal programs, before and after outlining, and still compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from tests.tile_ir.programs import CASES, INDEX_TYPE, Case, Code, block, crossing, program, tensor
from tests.tile_ir.sources import SOURCES
from tilejit.backends.reference.interpreter import ReferenceExecutable
from tilejit.dtypes import BOOL, INT64
from tilejit.frontend.text import parse
from tilejit.passes.pipeline import LOWER, OUTLINE, RETURNS, SIMPLIFY, Pass, VerifyInstrument, run_pipeline
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of, function
from tilejit.tile_ir.equal import assert_structural_equal, structural_hash
from tilejit.tile_ir.program import Function, Program
from tilejit.tile_ir.verify import verify
from tilejit.types.values import ScalarType

STAGES: dict[str, tuple[Pass, ...]] = {"parsed": (), "simplified": (SIMPLIFY,), "outlined": (RETURNS, OUTLINE), "lowered": LOWER}


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


_SCANS = """
@pl.program
class Example:
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[4, 6], pl.FP32], out: pl.Out[pl.Tensor[[4, 6], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            v = 1.0 - x
            out[:] = pl.scan(pl.maximum, v, axis=1) + pl.scan(pl.maximum, v, axis=1, reverse=True)
"""


def test_writes_into_a_value_leave_its_other_names_as_they_were() -> None:
    parsed = parse(_SCANS)
    assert isinstance(parsed, Program)
    for passes in STAGES.values():
        assert_prints_back(run_pipeline(parsed, passes))


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


# random scalar expressions ----------------------------------------------------------------------------------------------------

NUMBERS = ("add", "sub", "mul", "floordiv", "mod", "shl", "shr", "and_", "or_", "xor", "minimum", "maximum", "div")
FLAGS = ("and_", "or_", "xor")
Tree = Any
"""("m",), ("n",), (constant,), or (op, operands…)."""

leaves = st.one_of(st.just(("m",)), st.just(("n",)), st.integers(-9, 9).map(lambda value: (value,)))
numbers = st.recursive(
    leaves, lambda inner: st.one_of(st.tuples(st.sampled_from(NUMBERS), inner, inner), st.tuples(st.sampled_from(("neg", "not_", "abs")), inner)), max_leaves=9
)
comparisons = st.tuples(st.just("cmp"), numbers, numbers, st.integers(0, 5))
flags = st.recursive(comparisons, lambda inner: st.one_of(st.tuples(st.sampled_from(FLAGS), inner, inner), st.tuples(st.just("not_"), inner)), max_leaves=4)


def grow(b: Code, tree: Tree, names: dict[str, SSAValue]) -> SSAValue:
    head, *rest = tree
    if not rest:
        return names[head] if isinstance(head, str) else b.const(head)
    kind = rest.pop() if head == "cmp" else None
    operands = [grow(b, item, names) for item in rest]
    if all(constant_of(operand) is not None for operand in operands):
        operands[0] = names["m"]  # What only constants go into is computed while parsing.
    if kind is not None:
        return b.s("cmp", *operands, cmp_type=kind)
    if head in ("shl", "shr", "floordiv", "mod", "div"):
        known = constant_of(operands[1])
        operands[1] = b.const(int(known) % 7 + 1) if known is not None else b.s("add", b.s("and_", operands[1], b.const(7)), b.const(1))
    return b.s(head, *operands)


@settings(max_examples=80, deadline=None)
@given(numbers, flags, st.integers(-50, 50), st.integers(-50, 50))
def test_any_scalar_expression_parses_back(number: Tree, flag: Tree, m: int, n: int) -> None:
    f, (m_, n_, out) = function("main", "incore", [("m", INDEX_TYPE, "In"), ("n", INDEX_TYPE, "In"), ("out", tensor(2, dtype=INT64), "Out")])
    b = Code(f.body.block)
    names: dict[str, SSAValue] = {"m": m_, "n": n_}
    grown = grow(b, number, names)
    value = b.s("cast", m_ if constant_of(grown) is not None else grown, target_type=INT64)
    condition = grow(b, flag, names)
    then, a = block()
    a.write(out, [a.const(0)], value)
    a.yield_([])
    orelse, e = block()
    e.write(out, [e.const(1)], value)
    e.yield_([])
    b.if_(condition if d.type_of(condition) == ScalarType(BOOL) else b.s("cmp", condition, b.const(0), cmp_type=1), then, orelse, [])
    b.return_([])
    made = program(f)
    verify(made)
    again = parse(made.as_python())
    assert isinstance(again, Program)
    assert_structural_equal(again, made)
    results = [np.zeros(2, np.int64), np.zeros(2, np.int64)]
    for which, result in zip((made, run_pipeline(made, (SIMPLIFY,), [VerifyInstrument()])), results, strict=True):
        ReferenceExecutable(which).run("main", [m, n, result])
    np.testing.assert_array_equal(results[0], results[1])


def test_long_chains_do_not_overflow() -> None:
    f, (x, n, out) = function("main", "incore", [("x", tensor(4, 4), "In"), ("n", INDEX_TYPE, "In"), ("out", tensor(4, 4), "Out")])
    b = Code(f.body.block)
    value, index = b.op("exp", "tensor", x), n
    for _ in range(250):
        value, index = b.op("add", "tensor", value, b.const(1.0)), b.s("add", b.s("mul", index, n), n)
    b.store(value, out, [index, b.const(0)])
    b.return_([out])
    assert_prints_back(program(f))
