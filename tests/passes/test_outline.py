"""Outlining: one kernel per region and per run of operators; what crosses becomes buffers."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import SSAValue

from tests.tile_ir.programs import CASES, FLOAT, INDEX_TYPE, Case, Code, block, control_plane, crossing, program, ragged, random, tensor, tile
from tilejit.backends.cpu.target import PASSES
from tilejit.backends.reference.interpreter import ReferenceExecutable
from tilejit.dtypes import FP32
from tilejit.passes.pipeline import LOWER, OUTLINE, RETURNS, SIMPLIFY, Pass, VerifyInstrument, run_pipeline
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import function
from tilejit.tile_ir.equal import assert_structural_equal
from tilejit.tile_ir.program import Program
from tilejit.tile_ir.verify import verify
from tilejit.types.values import ANY, ScalarType, TileType

CONTROL = (d.ConstOp, d.DimOp, d.CreateOp, d.WindowOp, d.ViewOp, d.ReadOp, d.ForOp, d.WhileOp, d.IfOp, d.YieldOp, d.ConditionOp, d.LaunchOp, d.CallOp)
"""What is left on the control plane, besides scalar arithmetic, checks and the return."""


def outlined(made: Program) -> Program:
    return run_pipeline(made, (RETURNS, OUTLINE), [VerifyInstrument()])


def facts(made: Program, name: str) -> tuple[object, object, object]:
    f = made.functions[name]
    return f.static("kind"), f.static("params"), f.static("directions")


FORMS = ((RETURNS, OUTLINE), LOWER, PASSES, (SIMPLIFY, SIMPLIFY, RETURNS, OUTLINE))


@pytest.mark.parametrize("passes", FORMS, ids=lambda passes: "+".join(step.name for step in passes))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_results_stay_the_same(case: Case, passes: tuple[Pass, ...]) -> None:
    arguments = case.arguments()
    expected = case.expected([np.copy(item) if isinstance(item, np.ndarray) else item for item in arguments])
    made = run_pipeline(case.build(), passes, [VerifyInstrument()])
    ReferenceExecutable(made).run("main", arguments)
    for got, wanted in zip(arguments, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_control_plane_only_allocates_loops_and_launches(case: Case) -> None:
    made = outlined(case.build())
    assert "main" in made.entries
    for op in made.functions["main"].walk():
        plain = isinstance(op, (d.FuncOp, d.ReturnOp, d.CheckOp, *CONTROL))
        scalar = isinstance(op, d.ApplyOp) and all(isinstance(d.type_of(value), ScalarType) for value in [*op.operands, *op.results])
        assert plain or scalar, op


def test_the_input_of_a_pipeline_is_left_alone() -> None:
    before = ragged()
    run_pipeline(before, PASSES)
    assert_structural_equal(before, ragged())
    assert_structural_equal(run_pipeline(before, ()), ragged())


def test_a_region_becomes_a_kernel_with_directions() -> None:
    made = outlined(ragged())
    assert list(made.functions) == ["main_k0", "main"]
    assert facts(made, "main_k0") == ("incore", ("x", "out"), ("In", "Out"))


def test_a_run_of_operators_becomes_a_kernel() -> None:
    made = outlined(control_plane())
    assert facts(made, "main_k0") == ("incore", ("x", "double"), ("In", "Out"))
    assert len(made.functions) == 4
    (loop,) = [op for op in made.functions["main"].walk() if isinstance(op, d.ForOp)]
    assert d.type_of(loop.results[0]) == tensor("M", 12), "a carried tensor value is a buffer now"


def test_values_that_leave_a_region_become_buffers() -> None:
    made = outlined(crossing())
    assert list(made.functions) == ["first", "second", "main"]
    assert facts(made, "first")[2] == ("In", "Out", "Out")
    created = [d.type_of(op.result) for op in made.functions["main"].walk() if isinstance(op, d.CreateOp)]
    assert created == [tensor(6, 7), tensor(1)]


def test_blocks_launch_the_kernel_itself() -> None:
    made = outlined(next(case for case in CASES if case.name == "blocks").build())
    assert set(made.functions) == {"kernel", "tail", "main"}
    launches = [op for op in made.functions["main"].walk() if isinstance(op, d.LaunchOp)]
    assert [(op.callee.data, op.blocks is not None) for op in launches] == [("kernel", True), ("tail", True)]


def test_directions_follow_the_uses() -> None:
    f, (a, b_, c, e) = function("main", "orchestration", [(name, tensor(4), "InOut") for name in "abce"])
    b = Code(f.body.block)
    region, r = block()
    r.store(a, b_, r.zeros(1))
    r.store(r.op("neg", "tensor", c), c, r.zeros(1))
    r.store(a, e, r.zeros(1), atomic=True)
    r.yield_([])
    b.region(region, [], name_hint="k")
    b.return_([])
    assert facts(outlined(program(f)), "k") == ("incore", ("a", "b", "c", "e"), ("In", "Out", "InOut", "InOut"))


def test_windows_are_made_again_inside_so_that_aliases_stay_visible() -> None:
    f, (x, i) = function("main", "orchestration", [("x", tensor("M", 4), "InOut"), ("i", INDEX_TYPE, "In")])
    b = Code(f.body.block)
    row = b.window(x, [i, b.const(0)], [b.const(1), b.const(4)], tensor(4), drop=(0,))
    region, r = block()
    r.store(r.op("add", "tensor", row, row), x, r.zeros(2))
    r.yield_([])
    b.region(region, [], name_hint="k")
    b.return_([x])
    made = outlined(program(f))
    assert facts(made, "k")[1:] == (("x", "i"), ("InOut", "In"))
    x = random(3, 4)
    expected = x.copy()
    expected[0] = x[2] * 2
    ReferenceExecutable(made).run("main", [x, 2])
    np.testing.assert_array_equal(x, expected)


def test_kernel_names_are_unique() -> None:
    f, (x,) = function("main", "orchestration", [("x", tensor(4), "InOut")])
    b = Code(f.body.block)
    for _ in range(3):
        region, r = block()
        r.store(r.op("neg", "tensor", x), x, r.zeros(1))
        r.yield_([])
        b.region(region, [], name_hint="flip")
    b.return_([x])
    assert list(outlined(program(f)).functions) == ["flip", "flip_1", "flip_2", "main"]


def test_a_run_goes_around_scalars_and_allocations() -> None:
    f, (x, out) = function("main", "orchestration", [("x", tensor("M", 4), "In"), ("out", tensor("M", 4), "Out")])
    b = Code(f.body.block)
    y = b.op("exp", "tensor", x)
    tmp = b.create(tensor("M", 4), [b.dim(x, 0)])
    b.store(y, tmp, b.zeros(2))
    n = b.dim(y, 0)
    last = b.s("sub", n, b.const(1))
    b.store(b.op("add", "tensor", tmp, y), out, b.zeros(2))
    b.write(out, [last, b.const(0)], b.const(9.0))
    b.return_([out])
    made = outlined(program(f))
    assert len(made.functions) == 2, "one run, one kernel"
    x, out_ = random(5, 4), np.zeros((5, 4), np.float32)
    ReferenceExecutable(made).run("main", [x, out_])
    expected = (np.exp(x.astype(np.float64)).astype(np.float32)) * 2
    expected[4, 0] = 9
    np.testing.assert_array_equal(out_, expected)


def test_extents_of_crossing_values_come_from_the_operands() -> None:
    f, (x, y, out, i) = function(
        "main", "orchestration", [("x", tensor("M", 6), "In"), ("y", tensor(6, "N"), "In"), ("out", tensor("M", "N"), "Out"), ("i", INDEX_TYPE, "In")]
    )
    b = Code(f.body.block)
    part = b.window(y, [b.const(0), i], [b.const(6), b.s("sub", b.dim(y, 1), i)], tensor(6, ANY))
    product = b.op("matmul", "tensor", x, part)
    region, r = block()
    r.store(r.op("neg", "tensor", product), out, r.zeros(2))
    r.yield_([])
    b.region(region, [])
    b.return_([out])
    x, y, out_ = random(3, 6), random(6, 5), np.zeros((3, 5), np.float32)
    ReferenceExecutable(outlined(program(f))).run("main", [x, y, out_, 2])
    np.testing.assert_allclose(out_[:, :3], -(x @ y[:, 2:]), rtol=1e-5)
    assert not out_[:, 3:].any()


def narrowed_tiles(carry: str) -> Program:
    """Tiles with run-time valid regions leave a region, pass a loop or branch, and are stored by another region."""
    open_tile = tile(8, 5, valid=(ANY, 5))
    f, (x, out, n) = function("main", "orchestration", [("x", tensor(8, 5), "In"), ("out", tensor(8, 5), "InOut"), ("n", INDEX_TYPE, "In")])
    b = Code(f.body.block)
    region, r = block()
    r.yield_([r.load(x, r.zeros(2), [n, r.const(5)], open_tile)])
    value = b.region(region, [open_tile], name_hint="make").results[0]

    def doubled(c: Code, t: SSAValue, name: str) -> SSAValue:
        inner, s = block()
        rows = s.s("sub", s.valid(t, 0), s.const(1))
        part = s.load(x, s.zeros(2), [rows, s.const(5)], open_tile)
        s.yield_([s.op("add", "tile", t, part)])
        return c.region(inner, [open_tile], name_hint=name).results[0]

    if carry == "for":
        body, c = block(INDEX_TYPE, open_tile)
        c.yield_([doubled(c, body.args[1], "step")])
        value = b.for_(b.const(0), b.const(2), b.const(1), [value], body, [open_tile]).results[0]
    elif carry == "while":
        before, c = block(INDEX_TYPE, open_tile)
        c.condition(c.s("cmp", before.args[0], c.const(2), cmp_type=2), before.args)
        body, w = block(INDEX_TYPE, open_tile)
        w.yield_([w.s("add", body.args[0], w.const(1)), doubled(w, body.args[1], "step")])
        value = b.while_([b.const(0), value], before, body, [INDEX_TYPE, open_tile]).results[1]
    elif carry == "if":
        then, c = block()
        c.yield_([doubled(c, value, "step")])
        orelse, e = block()
        e.yield_([value])
        value = b.if_(b.s("cmp", n, b.const(4), cmp_type=4), then, orelse, [open_tile]).results[0]
    last, s = block()
    s.store(value, out, s.zeros(2))
    s.write(out, [s.s("sub", s.const(7), s.valid(value, 0)), s.const(0)], s.const(99.0))
    s.yield_([])
    b.region(last, [], name_hint="use")
    b.return_([out])
    return program(f)


@pytest.mark.parametrize("rows", [3, 5, 7])
@pytest.mark.parametrize("carry", ["none", "for", "while", "if"])
def test_run_time_valid_regions_cross_with_their_extents(carry: str, rows: int) -> None:
    plain = narrowed_tiles(carry)
    verify(plain)
    x = random(8, 5)
    expected, got = np.full((8, 5), 7, np.float32), np.full((8, 5), 7, np.float32)
    ReferenceExecutable(plain).run("main", [x, expected, rows])
    for passes in ((RETURNS, OUTLINE), PASSES):
        got = np.full((8, 5), 7, np.float32)
        ReferenceExecutable(run_pipeline(plain, passes, [VerifyInstrument()])).run("main", [x, got, rows])
        np.testing.assert_array_equal(got, expected)


def test_helpers_called_from_kernels_are_no_control_plane() -> None:
    helper, (x,) = function("helper", "opaque", [("x", tensor(4), "InOut")])
    h = Code(helper.body.block)
    own, o = block()
    o.store(o.op("neg", "tensor", x), x, o.zeros(1))
    o.yield_([])
    h.region(own, [])
    h.return_([x])
    f, (x,) = function("main", "orchestration", [("x", tensor(4), "InOut")])
    b = Code(f.body.block)
    region, r = block()
    r.call("helper", [x], [])
    r.call("helper", [x], [])
    r.store(r.op("add", "tensor", x, r.const(1.0)), x, r.zeros(1))
    r.yield_([])
    b.region(region, [])
    b.return_([x])
    made = outlined(program(helper, f))
    assert set(made.functions) == {"helper", "main_k0", "main"}
    assert not [op for op in made.module.walk() if isinstance(op, d.RegionOp)]
    x = random(4)
    expected = x + 1
    ReferenceExecutable(made).run("main", [x])
    np.testing.assert_array_equal(x, expected)


def test_kernels_that_return_values_write_them_to_new_tensors() -> None:
    kernel, (a,) = function("kernel", "incore", [("a", tensor("R", 3), "In")])
    k = Code(kernel.body.block)
    k.return_([k.op("exp", "tensor", a), k.read(a, k.zeros(2))])
    f, (x, out) = function("main", "orchestration", [("x", tensor("M", 3), "In"), ("out", tensor("M", 3), "Out")])
    b = Code(f.body.block)
    value = TileType(("M", 3), FP32, ("M", 3), "DDR")
    e, first = b.call("kernel", [x], [value, FLOAT])
    region, r = block()
    inner, corner = r.call("kernel", [x], [value, FLOAT])
    r.store(r.op("add", "tensor", r.op("mul", "tensor", inner, corner), r.op("mul", "tensor", e, first)), out, r.zeros(2))
    r.yield_([])
    b.region(region, [])
    b.return_([out])
    plain = program(kernel, f)
    verify(plain)
    made = outlined(plain)
    assert facts(made, "kernel") == ("incore", ("a", "result", "result_1"), ("In", "Out", "Out"))
    x, expected, got = random(4, 3), np.zeros((4, 3), np.float32), np.zeros((4, 3), np.float32)
    ReferenceExecutable(plain).run("main", [x, expected])
    ReferenceExecutable(made).run("main", [x, got])
    assert expected.any()
    np.testing.assert_array_equal(got, expected)
