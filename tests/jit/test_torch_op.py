"""Kernels as operators of torch: what torch is told agrees with what the kernel does, with gradients, in graphs and in exported programs."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from typing import Any, cast

import pytest

import tilejit.language as pl
from tilejit import RunConfig
from tilejit.errors import ArgumentError, ShapeError
from tilejit.jit.torch_op import op_of

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

N = pl.dynamic("N")


@pl.jit
def scaled(x: pl.Tensor[[N, 6], pl.FP32], out: pl.Out[pl.Tensor[[N, 6], pl.FP32]], scale: pl.Scalar[pl.FP32] = 2.0):  # type: ignore[assignment]
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, scale)


@pl.jit
def scaled_backward(grad_out: pl.Tensor, scale: pl.Scalar[pl.FP32], grad_x: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        grad_x[:] = pl.mul(grad_out, scale)


@pl.jit
def accumulate(x: pl.Tensor, total: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total[:] = pl.add(total, x)


@pl.jit
def both(x: pl.Tensor, y: pl.Tensor, total: pl.Out[pl.Tensor], gap: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total[:] = pl.add(x, y)
        gap[:] = pl.sub(x, y)


@pl.jit
def both_backward(grad_gap: pl.Tensor, grad_total: pl.Tensor, grad_y: pl.Out[pl.Tensor], grad_x: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        grad_y[:] = pl.sub(grad_total, grad_gap)
        grad_x[:] = pl.add(grad_total, grad_gap)


@pl.jit
def renamed(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        done = pl.store(pl.exp(pl.load(x, [0, 0], [4, 6])), [0, 0], out)
    return done


@pl.jit
def fresh(x: pl.Tensor, count: int = 3):
    return pl.exp(x), pl.full([count, 4], dtype=pl.FP32, value=1.0)


def test_schema_and_mutation_are_those_of_the_program() -> None:
    wanted = {
        scaled: "(Tensor x, float? scale=None) -> Tensor",
        accumulate: "(Tensor x, Tensor(a_total!) total) -> ()",
        both: "(Tensor x, Tensor y) -> (Tensor, Tensor)",
        renamed: "(Tensor x) -> Tensor",
        fresh: "(Tensor x, SymInt? count=None) -> (Tensor, Tensor)",
    }
    assert {kernel: op_of(kernel, False, None).schema for kernel in wanted} == wanted
    assert op_of(scaled, True, None).schema == "(Tensor x, Tensor(a_out!) out, float? scale=None) -> ()"


def test_an_argument_that_equals_the_default_is_passed_all_the_same() -> None:
    """Torch takes 0.0 for -0.0, and knows nothing of a default that was replaced since."""

    @pl.jit(on_drift="recompile")
    def signed(x: pl.Tensor, out: pl.Out[pl.Tensor], s: float = -0.0):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * math.copysign(3.0, s)

    op, x = signed.as_torch_op("tilejit_tests::signed"), torch.ones(2, 3)
    assert [op(x, *s)[0, 0].item() for s in ((), (0.0,), (-0.0,), (2.0,))] == [-3, 3, -3, 3]
    cast("Any", signed).__wrapped__.__defaults__ = (5.0,)
    assert [op(x, *s)[0, 0].item() for s in ((), (0.0,), (-0.0,), (5.0,))] == [3, 3, -3, 3]


@pytest.mark.slow
def test_torch_checks_every_form_of_operator() -> None:
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    whole = [
        (scaled.as_torch_op("tilejit_test::scaled", backward=scaled_backward), (x.clone().requires_grad_(), 1.5)),
        (accumulate.as_torch_op("tilejit_test::accumulate"), (x, y.clone())),
    ]
    others = [
        (renamed.as_torch_op("tilejit_test::renamed"), (x,)),
        (fresh.as_torch_op("tilejit_test::fresh"), (x, 5)),
        (scaled.as_torch_op("tilejit_test::scaled_into", in_place=True), (x, torch.zeros(4, 6))),
    ]
    quick = ("test_schema", "test_faketensor")
    outcomes = [torch.library.opcheck(op, arguments) for op, arguments in whole]
    outcomes += [torch.library.opcheck(op, arguments, test_utils=quick) for op, arguments in others]
    assert [set(outcome.values()) for outcome in outcomes] == [{"SUCCESS"}] * 5


def test_results_and_gradients_are_right_also_where_names_are_in_another_order() -> None:
    op = both.as_torch_op("tilejit_test::both_right", backward=both_backward)
    x, y = torch.randn(3, 5, requires_grad=True), torch.randn(3, 5, requires_grad=True)
    total, gap = op(x, y)
    torch.testing.assert_close((total, gap), (x + y, x - y))
    p, q = torch.randn(3, 5), torch.randn(3, 5)
    got = torch.autograd.grad((total * p + gap * q).sum(), (x, y))
    torch.testing.assert_close(got, (p + q, p - q))
    only_one = torch.autograd.grad((op(x, y)[0] * p).sum(), (x, y))
    torch.testing.assert_close(only_one, (p, p))


def test_what_is_written_in_place_is_written_in_graphs_too() -> None:
    op = accumulate.as_torch_op("tilejit_test::accumulate_compiled")

    def twice(x: Any, total: Any) -> Any:
        op(x, total)
        op(x, total)
        return total * 2

    x, total = torch.randn(3, 7), torch.randn(3, 7)
    expected = (total + x + x) * 2
    for backend in ("eager", "aot_eager"):
        mine = total.clone()
        torch.testing.assert_close(torch.compile(twice, backend=backend, fullgraph=True)(x, mine), expected)
        torch.testing.assert_close(mine, total + x + x)


def test_dynamic_extents_stay_dynamic_in_graphs_and_exports() -> None:
    op = scaled.as_torch_op("tilejit_test::scaled_dynamic", backward=scaled_backward)
    graphs: list[object] = []

    def counting(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    compiled = torch.compile(lambda x: op(x, 3.0) + 1, dynamic=True, fullgraph=True, backend=counting)
    for rows in (3, 5, 8):
        x = torch.randn(rows, 6)
        torch.testing.assert_close(compiled(x), 3 * x + 1)
    assert len(graphs) == 1

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return op(x) + 1

    exported = torch.export.export(Model(), (torch.randn(4, 6),), dynamic_shapes={"x": {0: torch.export.Dim("rows", min=2)}})
    assert "tilejit_test.scaled_dynamic" in exported.graph_module.code
    x = torch.randn(11, 6)
    torch.testing.assert_close(exported.module()(x), 2 * x + 1)


def test_extents_that_a_kernel_is_compiled_for_are_fixed_in_a_graph() -> None:
    op = both.as_torch_op("tilejit_test::both_fixed")
    compiled = torch.compile(lambda x: op(x, x)[0], dynamic=True, fullgraph=True, backend="aot_eager")
    for rows in (3, 5):
        x = torch.randn(rows, 6)
        torch.testing.assert_close(compiled(x), 2 * x)


def test_a_direct_call_breaks_the_graph_and_says_what_to_do() -> None:
    x = torch.randn(4, 6)
    run = torch.compile(lambda x: scaled(x, scale=3.0) * 2, backend="eager")
    for _ in range(4):
        torch.testing.assert_close(run(x), 6 * x)
    with pytest.raises(Exception, match=r"op = kernel\.as_torch_op\(\"mylib::name\"\)"):
        torch.compile(lambda x: scaled(x, scale=3.0) * 2, backend="eager", fullgraph=True)(x)
    program = scaled.compile(x, scale=3.0)
    torch.testing.assert_close(torch.compile(lambda x: program(x) * 2, backend="eager")(x), 6 * x)


def test_the_example_trains_through_its_own_backward() -> None:
    from examples.training import __main__ as example
    from examples.training.norm import EPSILON, HIDDEN, rms_norm

    torch.manual_seed(3)
    x, weight = torch.randn(5, HIDDEN, requires_grad=True), torch.randn(1, HIDDEN, requires_grad=True)
    plain = x / torch.sqrt((x * x).mean(1, keepdim=True) + EPSILON) * weight
    grad = torch.randn_like(plain)
    torch.testing.assert_close(torch.autograd.grad(rms_norm(x, weight), (x, weight), grad), torch.autograd.grad(plain, (x, weight), grad))
    with pytest.warns(UserWarning, match="not a double precision"):
        assert torch.autograd.gradcheck(rms_norm, (x, weight), eps=1e-2, atol=2e-2, rtol=2e-2)
    first, last = example.train(torch.compile(example.Model(), backend="aot_eager", fullgraph=True), steps=30)
    assert last < 0.5 * first


def test_an_input_without_gradient_that_needs_one_is_an_error() -> None:
    @pl.jit
    def half_backward(grad_total: pl.Tensor, grad_x: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            grad_x[:] = pl.mul(grad_total, 1.0)

    op = both.as_torch_op("tilejit_test::both_half", backward=half_backward)
    x, y = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3)
    assert op(x, y)[0].requires_grad
    with pytest.raises(ArgumentError, match="`y` requires grad, but the backward gives no gradient"):
        op(x, y.requires_grad_())


def test_mistakes_are_named() -> None:
    @pl.jit
    def wrong_name(grad_totl: pl.Tensor, grad_x: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            grad_x[:] = pl.mul(grad_totl, 1.0)

    @pl.jit
    def wrong_result(grad_total: pl.Tensor, grad_z: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            grad_z[:] = pl.mul(grad_total, 1.0)

    @pl.jit
    def unannotated(x: pl.Tensor, count, out: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.mul(x, count)

    cases: list[tuple[Any, str]] = [
        (lambda: both.as_torch_op("both"), r'`namespace::name`, got \'both\'[\s\S]*as_torch_op\("mylib::both"\)'),
        (lambda: both.as_torch_op("a::b c"), "got 'a::b c'"),
        (lambda: both.as_torch_op("tilejit_test::x", backward=wrong_name), r"takes `grad_totl`[\s\S]*did you mean `grad_total`"),
        (lambda: both.as_torch_op("tilejit_test::x", backward=wrong_result), r"gives `grad_z`, which is the gradient of no tensor"),
        (lambda: both.as_torch_op("tilejit_test::x", backward=len), "backward= takes a kernel, got builtin_function_or_method"),  # type: ignore[arg-type]
        (lambda: accumulate.as_torch_op("tilejit_test::x", backward=both_backward), "writes its argument `total`"),
        (lambda: unannotated.as_torch_op("tilejit_test::x"), "torch must know what `count` of `unannotated` is"),
    ]
    for attempt, message in cases:
        with pytest.raises(ArgumentError, match=message):
            attempt()


def test_an_output_whose_shape_cannot_be_told_is_an_error_with_a_help() -> None:
    @pl.jit(runtime_scalars=("row",))
    def placed(x: pl.Tensor, out: pl.Out[pl.Tensor], row: pl.Scalar[pl.INT32]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(x, [0, 0], [2, 6]), [row, 0], out)

    with pytest.raises(ShapeError, match="pass `out`"):
        placed.as_torch_op("tilejit_test::placed")(torch.randn(2, 6), 1)
    x, out = torch.randn(2, 6), torch.zeros(4, 6)
    placed.as_torch_op("tilejit_test::placed_into", in_place=True)(x, out, 1)
    torch.testing.assert_close(out[1:3], x)


RELOADED = """
import tilejit.language as pl

@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x * {factor}

op = kernel.as_torch_op("tilejit_test::reloaded")
"""


def test_a_module_that_is_loaded_again_brings_its_operator_to_all_who_call_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "with_operator.py").write_text(RELOADED.format(factor=2.0))
    module = importlib.import_module("with_operator")
    first, x = module.op, torch.ones(2, 3)
    graph = torch.compile(lambda x: first(x) + 1, backend="aot_eager", fullgraph=True)
    assert first(x)[0, 0] == 2 and graph(x)[0, 0] == 3
    (tmp_path / "with_operator.py").write_text(RELOADED.format(factor=30.0))
    importlib.reload(module)
    assert module.op(x)[0, 0] == first(x)[0, 0] == torch.ops.tilejit_test.reloaded(x)[0, 0] == 30 and graph(x)[0, 0] == 31
    (tmp_path / "with_operator.py").write_text(RELOADED.format(factor=30.0).replace("(x: pl.Tensor,", "(x: pl.Tensor, more: pl.Tensor,"))
    with pytest.raises(ArgumentError, match=r"takes other arguments now[\s\S]*choose another name"):
        importlib.reload(module)
    assert first(x)[0, 0] == 30


def test_a_name_has_one_kernel() -> None:
    def made(factor: float) -> Any:
        @pl.jit
        def local(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = pl.mul(x, factor)

        return local

    class Layer:
        @pl.jit
        def method(self, x: pl.Tensor, out: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = pl.mul(x, 2.0)

    op, x = made(2.0).as_torch_op("tilejit_test::one_kernel"), torch.ones(2, 3)
    assert renamed.as_torch_op("tilejit_test::renamed") and renamed.as_torch_op("tilejit_test::renamed")
    both.as_torch_op("tilejit_test::forward", backward=both_backward)
    first, second = Layer(), Layer()
    first.method.as_torch_op("tilejit_test::method")
    cases: list[tuple[Any, str]] = [
        (lambda: made(3.0).as_torch_op("tilejit_test::one_kernel"), r"another kernel `.*local`[\s\S]*tilejit_test::local_2"),
        (lambda: renamed.as_torch_op("tilejit_test::one_kernel"), r"is the kernel `.*local`: `.*renamed` would take its place"),
        (lambda: renamed.as_torch_op("tilejit_test::forward_backward"), r"is the kernel `.*both_backward`"),
        (lambda: both.as_torch_op("tilejit_test::forward", backward=half), r"is the kernel `.*both_backward`"),
        (lambda: second.method.as_torch_op("tilejit_test::method"), r"another kernel `.*method`"),
        (lambda: renamed.as_torch_op("aten::relu"), r"`aten::relu` that is no kernel[\s\S]*mylib::renamed_2"),
    ]
    for attempt, message in cases:
        with pytest.raises(ArgumentError, match=message):
            attempt()
    assert op(x)[0, 0] == 2.0


@pl.jit
def half(grad_total: pl.Tensor, grad_x: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        grad_x[:] = pl.mul(grad_total, 0.5)


def _made(factor: object) -> Any:
    @pl.jit
    def by_default(x: pl.Tensor, out: pl.Out[pl.Tensor], by: float = factor):  # type: ignore[assignment]
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * by

    return by_default.as_torch_op("tests_made::by_default")


def test_an_operator_of_a_kernel_that_a_function_makes_is_never_another_one() -> None:
    x = torch.ones(2, 3)
    double = _made(2.0)
    with pytest.raises(ArgumentError, match="make a new one each time"):
        _made(3.0)
    assert double(x)[0, 0] == 2 == _made(2.0)(x)[0, 0]


WITH_BACKWARD = """
import tilejit.language as pl

@pl.jit
def square(x: pl.Tensor, out: pl.Out[pl.Tensor]{more}):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * x

@pl.jit
def square_backward(x: pl.Tensor, grad_out: pl.Tensor, grad_x: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        grad_x[:] = grad_out * x * {two}

op = square.as_torch_op("tests_reloaded::square", backward=square_backward)
"""


def test_an_operator_that_is_refused_changes_nothing_of_the_one_that_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "with_backward.py").write_text(WITH_BACKWARD.format(more="", two="2.0"))
    module = importlib.import_module("with_backward")
    op = module.op

    def gradient() -> float:
        x = torch.full((2, 3), 3.0, requires_grad=True)
        op(x).sum().backward()
        return x.grad[0, 0].item()

    assert gradient() == 6.0
    (tmp_path / "with_backward.py").write_text(WITH_BACKWARD.format(more=", by: float = 10.0", two="20.0"))
    with pytest.raises(ArgumentError, match="takes other arguments now"):
        importlib.reload(module)
    assert gradient() == 6.0


TWO_RESULTS = """
import tilejit.language as pl

@pl.jit
def both(x: pl.Tensor, {outputs}):
    with pl.at(level=pl.Level.CORE_GROUP):
        up[:] = x + 1.0
        down[:] = x - 1.0

op = both.as_torch_op("tests_reloaded::both")
"""


def test_results_in_another_order_are_refused_for_graphs_know_them_by_their_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    orders = ["up: pl.Out[pl.Tensor], down: pl.Out[pl.Tensor]", "down: pl.Out[pl.Tensor], up: pl.Out[pl.Tensor]"]
    (tmp_path / "with_results.py").write_text(TWO_RESULTS.format(outputs=orders[0]))
    module = importlib.import_module("with_results")
    op, x = module.op, torch.zeros(2, 3)
    (tmp_path / "with_results.py").write_text(TWO_RESULTS.format(outputs=orders[1]) + "# of another size\n")
    with pytest.raises(ArgumentError, match="returns down, up now, and graphs take what it returns for up, down"):
        importlib.reload(module)
    assert [result[0, 0].item() for result in op(x)] == [1, -1]


def test_an_operator_keeps_the_config_that_it_was_made_with() -> None:
    op = renamed.as_torch_op("tests_config::renamed", config=RunConfig(num_threads=1))
    assert renamed.as_torch_op("tests_config::renamed", config=RunConfig(num_threads=1)) is op
    for other in (None, RunConfig(platform="reference")):
        with pytest.raises(ArgumentError, match=r"runs `renamed` with another config=[\s\S]*choose another name"):
            renamed.as_torch_op("tests_config::renamed", config=other)
    with pytest.raises(ArgumentError, match="config must be a RunConfig, got dict"):
        renamed.as_torch_op("tests_config::other", config=cast("Any", {}))
