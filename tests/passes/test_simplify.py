"""Simplification: smaller programs with the same results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.ir import Operation, SSAValue

import tilejit.language as pl
from tests.tile_ir.programs import CASES, FLOAT, INDEX_TYPE, Case, Code, block, program, random, tensor, tile
from tilejit.backends.reference.interpreter import ReferenceExecutable
from tilejit.dtypes import BF16, BOOL, FP32, INDEX, INT32, UINT8
from tilejit.passes.pipeline import SIMPLIFY, VerifyInstrument, run_pipeline
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of, function
from tilejit.tile_ir.program import Function, Program
from tilejit.types.values import ScalarType


def simplified(made: Program) -> Program:
    return run_pipeline(made, (SIMPLIFY,), [VerifyInstrument()])


def scalars(body: Callable[[Code, SSAValue, SSAValue], SSAValue]) -> Program:
    """A function of two INDEX scalars that returns one scalar."""
    f, (m, n) = function("main", "incore", [("m", INDEX_TYPE, "In"), ("n", INDEX_TYPE, "In")])
    b = Code(f.body.block)
    b.return_([body(b, m, n)])
    return program(f)


def ops_of(made: Program, kind: type[Operation] = d.TileOp) -> list[Operation]:
    return [op for op in made.functions["main"].walk() if isinstance(op, kind) and not isinstance(op, d.FuncOp | d.ReturnOp | d.YieldOp)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_results_stay_the_same(case: Case) -> None:
    arguments = case.arguments()
    expected = case.expected([np.copy(item) if isinstance(item, np.ndarray) else item for item in arguments])
    ReferenceExecutable(simplified(case.build())).run("main", arguments)
    for got, wanted in zip(arguments, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("name", "left", "right", "dtype", "expected"),
    [
        ("add", 3, 4, INDEX, 7),
        ("mul", 250, 3, UINT8, (250 * 3) % 256),
        ("floordiv", -7, 2, INDEX, -4),
        ("mod", -7, 3, INDEX, 2),
        ("div", -7, 2, INDEX, -3),
        ("sub", 0.1, 0.2, FP32, float(np.float32(0.1) - np.float32(0.2))),
        ("minimum", 3, -4, INT32, -4),
        ("add", 1.0, 2**-9, BF16, 1.0),
    ],
)
def test_constants_are_folded_as_the_reference_computes(name: str, left: float, right: float, dtype: object, expected: float) -> None:
    made = simplified(scalars(lambda b, m, n: b.s(name, b.const(left, dtype), b.const(right, dtype))))  # type: ignore[arg-type]
    returned = made.functions["main"].body.block.last_op
    assert isinstance(returned, d.ReturnOp)
    assert constant_of(returned.values[0]) == expected
    assert d.type_of(returned.values[0]) == ScalarType(dtype)  # type: ignore[arg-type]
    assert len(ops_of(made)) == 1


def test_comparisons_fold_to_flags() -> None:
    made = simplified(scalars(lambda b, m, n: b.s("cmp", b.const(3), b.const(4), cmp_type=2)))
    (const,) = ops_of(made)
    assert isinstance(const, d.ConstOp) and const.static("value") is True and d.type_of(const.result) == ScalarType(BOOL)


@pytest.mark.parametrize(
    "body",
    [
        lambda b, m, n: b.s("add", m, b.const(0)),
        lambda b, m, n: b.s("add", b.const(0), m),
        lambda b, m, n: b.s("sub", m, b.const(0)),
        lambda b, m, n: b.s("mul", m, b.const(1)),
        lambda b, m, n: b.s("mul", b.const(1), m),
        lambda b, m, n: b.s("floordiv", m, b.const(1)),
        lambda b, m, n: b.s("minimum", m, m),
        lambda b, m, n: b.s("add", m, b.s("mul", n, b.const(0))),
        lambda b, m, n: b.s("add", m, b.s("mod", n, b.const(1))),
        lambda b, m, n: b.s("add", m, b.s("sub", n, n)),
        lambda b, m, n: b.s("sub", b.s("add", m, b.const(5)), b.const(5)),
    ],
)
def test_identities_of_index_arithmetic(body: Callable[[Code, SSAValue, SSAValue], SSAValue]) -> None:
    made = simplified(scalars(body))
    returned = made.functions["main"].body.block.last_op
    assert isinstance(returned, d.ReturnOp)
    assert returned.values[0] is made.functions["main"].body.block.args[0]
    assert not ops_of(made)


def test_constants_of_sums_are_collected() -> None:
    made = simplified(scalars(lambda b, m, n: b.s("sub", b.s("add", m, b.const(5)), b.const(9))))
    assert ReferenceExecutable(made).run("main", [100, 0]) == (96,)
    assert len(ops_of(made, d.ApplyOp)) == 1


def test_floats_keep_their_zeros() -> None:
    f, (x,) = function("main", "incore", [("x", FLOAT, "In")])
    b = Code(f.body.block)
    b.return_([b.s("add", b.s("mul", x, b.const(0.0)), b.const(0.0))])
    assert len(ops_of(simplified(program(f)), d.ApplyOp)) == 2


def test_equal_scalars_are_computed_once() -> None:
    made = simplified(scalars(lambda b, m, n: b.s("mul", b.s("add", m, n), b.s("add", m, n))))
    assert len(ops_of(made, d.ApplyOp)) == 2
    made = simplified(scalars(lambda b, m, n: b.s("mul", b.s("sub", m, n), b.s("sub", n, m))))
    assert len(ops_of(made, d.ApplyOp)) == 3, "operand order matters"


def loop_program(lower: int, upper: int) -> Program:
    f, (x, out) = function("main", "incore", [("x", tensor(8, 4), "In"), ("out", tensor(2, 4), "Out")])
    b = Code(f.body.block)
    body, c = block(INDEX_TYPE, tile(2, 4))
    t = c.load(x, [c.s("mul", body.args[0], c.const(2)), c.const(0)], [c.const(2), c.const(4)], tile(2, 4))
    c.yield_([c.op("add", "tile", body.args[1], t)])
    loop = b.for_(b.const(lower), b.const(upper), b.const(1), [b.load_all(x, tile(2, 4))], body, [tile(2, 4)])
    b.store(loop.results[0], out, b.zeros(2))
    b.return_([out])
    return program(f)


@pytest.mark.parametrize(("lower", "upper", "loops"), [(1, 1, 0), (3, 1, 0), (2, 3, 0), (1, 3, 1)])
def test_loops_that_run_never_or_once_are_gone(lower: int, upper: int, loops: int) -> None:
    made = simplified(loop_program(lower, upper))
    assert len(ops_of(made, d.ForOp)) == loops
    x, out = random(8, 4), np.zeros((2, 4), np.float32)
    expected = x[:2].copy()
    for i in range(lower, upper):
        expected = expected + x[2 * i : 2 * i + 2]
    ReferenceExecutable(made).run("main", [x, out])
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_on_a_constant_is_its_arm(flag: bool) -> None:
    def body(b: Code, m: SSAValue, n: SSAValue) -> SSAValue:
        then, a = block()
        a.yield_([a.s("add", m, n)])
        orelse, e = block()
        e.yield_([e.s("sub", m, n)])
        return b.if_(b.const(flag), then, orelse, [INDEX_TYPE]).results[0]

    made = simplified(scalars(body))
    assert not ops_of(made, d.IfOp)
    assert ReferenceExecutable(made).run("main", [10, 4]) == (14 if flag else 6,)


def test_unused_and_unchanged_carried_values_go() -> None:
    made = simplified(next(case for case in CASES if case.name == "carried").build())
    (loop,) = ops_of(made, d.ForOp)
    assert isinstance(loop, d.ForOp) and len(loop.inits) == 1, "only the sum is left"


def test_values_that_a_while_never_changes_are_taken_from_outside() -> None:
    def body(b: Code, m: SSAValue, n: SSAValue) -> SSAValue:
        before, c = block(INDEX_TYPE, INDEX_TYPE)
        c.condition(c.s("cmp", before.args[0], before.args[1], cmp_type=2), before.args)
        inner, w = block(INDEX_TYPE, INDEX_TYPE)
        w.yield_([w.s("add", inner.args[0], w.s("add", inner.args[0], inner.args[1])), inner.args[1]])
        return b.while_([m, n], before, inner, [INDEX_TYPE, INDEX_TYPE]).results[0]

    plain = scalars(body)
    made = simplified(plain)
    (loop,) = ops_of(made, d.WhileOp)
    assert isinstance(loop, d.WhileOp) and len(loop.inits) == 1
    for m, n in [(1, 50), (9, 3)]:
        assert ReferenceExecutable(made).run("main", [m, n]) == ReferenceExecutable(plain).run("main", [m, n])


def test_a_result_known_outside_is_no_result() -> None:
    f, (x, n) = function("main", "orchestration", [("x", tensor(4), "InOut"), ("n", INDEX_TYPE, "In")])
    b = Code(f.body.block)
    region, r = block()
    r.store(r.op("neg", "tensor", x), x, r.zeros(1))
    r.yield_([n, r.const(2), r.s("add", n, n)])
    made = b.region(region, [INDEX_TYPE] * 3)
    b.write(x, [made.results[0]], b.const(1.0))
    b.write(x, [made.results[1]], b.const(2.0))
    b.return_([x])
    (left,) = ops_of(simplified(program(f)), d.RegionOp)
    assert not left.results


def test_what_may_fail_stays() -> None:
    f, (x, i) = function("main", "incore", [("x", tensor(4, 4), "In"), ("i", INDEX_TYPE, "In")])
    b = Code(f.body.block)
    b.load(x, [i, i], [b.const(2), b.const(2)], tile(2, 2))
    b.load_all(x, tile(4, 4))
    b.return_([])
    assert len(ops_of(simplified(program(f)), d.LoadOp)) == 1, "the load that is surely inside goes, the other one stays"


def test_extents_of_new_tensors_and_slices_are_known() -> None:
    f, (x, n) = function("main", "incore", [("x", tensor("M", 3), "In"), ("n", INDEX_TYPE, "In")])
    b = Code(f.body.block)
    made = b.create(tensor("?", 5, "?"), [n, b.dim(x, 0)])
    part = b.window(x, [b.const(0), b.const(1)], [n, b.const(1)], tensor("?"), drop=(1,))
    b.return_([b.dim(made, 0), b.dim(made, 2), b.dim(part, 0)])
    dims = ops_of(simplified(program(f)), d.DimOp)
    assert len(dims) == 1, "only the extent of the parameter is read"


def test_the_extent_of_a_computed_value_is_that_of_the_parameter_it_has_it_from() -> None:
    f, (x,) = function("main", "incore", [("x", tensor("M", 3), "In")])
    b = Code(f.body.block)
    b.return_([b.dim(b.op("add", "tensor", x, x), 0)])
    made = simplified(program(f))
    (dim,) = ops_of(made, d.DimOp)
    assert isinstance(dim, d.DimOp) and dim.source is made.functions["main"].body.block.args[0] and not ops_of(made, d.ApplyOp)


def test_an_extent_check_is_made_once() -> None:
    f, (x, y) = function("main", "incore", [("x", tensor("M", 3), "In"), ("y", tensor("N", 3), "InOut")])
    b = Code(f.body.block)
    b.store(b.op("add", "tensor", b.op("add", "tensor", x, y), b.op("sub", "tensor", x, y)), y, b.zeros(2))
    b.return_([y])
    made = program(f)
    assert len(ops_of(made, d.CheckOp)) == 2
    assert len(ops_of(simplified(made), d.CheckOp)) == 1


_UNUSED = """
import tilejit.language as pl
M = pl.dynamic("M")

@pl.function(type=pl.FunctionType.InCore)
def main(x: pl.Tensor[[M, 8], pl.FP32], w: pl.Tensor[[4, 8], pl.FP32], n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[M, 8], pl.FP32]]):
    whole = pl.load(w, [0, 0], [4, 8])
    part = pl.load(w, [0, 0], [4, 8], valid_shape=[n, 8])
    unused = {expression}
    out[:] = x
"""


@pytest.mark.parametrize(
    ("expression", "stays"),
    [
        ("pl.col_max(x)", True),
        ("pl.col_max(part)", True),
        ("pl.col_max(whole)", False),
        ("pl.col_sum(part)", False),
        ("pl.row_expand_mul(whole, pl.row_sum(part, whole))", True),
        ("pl.matmul(pl.transpose(part, 0, 1), whole)", True),
        ("pl.exp(part)", False),
    ],
)
def test_an_unused_op_goes_unless_its_failure_belongs_to_the_program(expression: str, stays: bool) -> None:
    made = pl.parse(_UNUSED.format(expression=expression))
    program = made.program if isinstance(made, Function) else made
    names = [op.op for op in simplified(program).functions["main"].walk() if isinstance(op, d.ApplyOp)]
    wanted = expression.partition(".")[2].partition("(")[0]
    assert (wanted in names) is stays
