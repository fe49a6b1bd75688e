"""The backward of an operator goes with its forward: in calls, in compiled graphs, after a default has changed and after its module was loaded again."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

import tilejit.language as pl
from tilejit.errors import ArgumentError, TilejitWarning

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pl.jit(on_drift="recompile")
def times(x: pl.Tensor, out: pl.Out[pl.Tensor], factor: float = 2.0, more: int = 0):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * (factor + more)


@pl.jit
def times_backward(factor: float, grad_out: pl.Tensor, grad_x: pl.Out[pl.Tensor], more: int = 70):
    with pl.at(level=pl.Level.CORE_GROUP):
        grad_x[:] = grad_out * (factor + more)


def both_ways(call: Callable[..., Any], *more: float) -> tuple[float, float]:
    """A value and the gradient of it."""
    x = torch.ones(4, 8, requires_grad=True)
    y = call(x, *more)
    y.sum().backward()
    return y[0, 0].item(), x.grad[0, 0].item()


@pytest.fixture
def defaults(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    return lambda *values: monkeypatch.setattr(cast("Any", times).__wrapped__, "__defaults__", values)


def test_a_default_that_changes_is_that_of_the_backward_too(defaults: Callable[..., None]) -> None:
    op = times.as_torch_op("tests_backward::times", backward=times_backward)
    graph = torch.compile(lambda x, *more: op(x, *more) * 1.0, backend="aot_eager", fullgraph=True)
    for factor, more in ((2.0, 0), (3.5, 0), (3.5, 4), (2.0, 0)):
        defaults(factor, more)
        assert both_ways(op) == both_ways(graph) == (factor + more,) * 2
        assert both_ways(op, 5.0) == both_ways(graph, 5.0) == (5.0 + more,) * 2
        assert both_ways(op, -2.0, 1) == both_ways(graph, -2.0, 1) == (-1.0, -1.0)
    x = torch.ones(4, 8, requires_grad=True)
    y = op(x)
    defaults(9.0, 0)
    y.sum().backward()
    assert x.grad[0, 0] == y[0, 0] == 2.0  # the forward's
    torch.library.opcheck(op, (torch.ones(4, 8, requires_grad=True),))
    torch.library.opcheck(op, (torch.ones(4, 8, requires_grad=True), 3.0))


RELOADED = """
import tilejit.language as pl

@pl.jit
def product(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor], by: float = {by}):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * y * by

@pl.jit
def product_backward({other}: pl.Tensor, by: float, grad_out: pl.Tensor, grad_{one}: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        grad_{one}[:] = grad_out * {other} * by

op = product.as_torch_op("tests_backward::product", backward=product_backward)
"""


def test_a_backward_that_is_loaded_again_is_one_of_the_same_gradients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "with_gradients.py"
    path.write_text(RELOADED.format(one="x", other="y", by=1.0))
    module = importlib.import_module("with_gradients")
    op, y = module.op, torch.full((4, 8), 7.0)
    graph = torch.compile(lambda x: op(x, y) * 1.0, backend="aot_eager", fullgraph=True)
    ways: tuple[Any, ...] = (lambda x: op(x, y), graph)
    assert [both_ways(way) for way in ways] == [(7.0, 7.0)] * 2
    path.write_text(RELOADED.format(one="x", other="y", by=10.0))
    importlib.reload(module)
    assert [both_ways(way) for way in ways] == [(70.0, 70.0)] * 2
    for number, (one, other) in enumerate((("y", "y"), ("y", "x"), ("x", "out")), 1):
        path.write_text(RELOADED.format(one=one, other=other, by=10.0) + "#" * number)
        with pytest.raises(ArgumentError, match=r"graphs|other arguments"):
            importlib.reload(module)
        assert [both_ways(way) for way in ways] == [(70.0, 70.0)] * 2


# kernels with several results ------------------------------------------------------------------------------------------------


@pl.jit
def both_backward(grad_out: pl.Tensor, grad_new: pl.Tensor, grad_x: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        grad_x[:] = grad_out * 2.0 + grad_new * 3.0


@pl.jit
def one_backward(grad_out: pl.Tensor, grad_x: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        grad_x[:] = grad_out * 2.0


@pl.jit
def in_two_orders(x: pl.Tensor, flip: bool, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0
        new = x * 3.0
    if flip:
        return new, out
    return out, new


@pl.jit
def in_an_expression(x: pl.Tensor, flip: bool, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0
        new = x * 3.0
    return (new, out) if flip else (out, new)


@pl.jit
def in_a_name(x: pl.Tensor, flip: bool, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0
        new = x * 3.0
    pair = (out, new)
    if flip:
        pair = (new, out)
    return pair


@pytest.mark.parametrize("kernel", [in_two_orders, in_an_expression, in_a_name], ids=lambda kernel: kernel.__name__)
def test_results_in_two_orders_have_no_gradients(kernel: Any) -> None:
    plain = kernel.as_torch_op(f"tests_backward::plain_{kernel.__name__}")
    assert [part[0, 0].item() for flip in (True, False) for part in plain(torch.ones(4, 8), flip)] == [3.0, 2.0, 2.0, 3.0]  # by their places
    with pytest.raises(ArgumentError, match=f"`{kernel.__name__}` returns .*: gradients go by the names of results") as caught:
        kernel.as_torch_op(f"tests_backward::{kernel.__name__}", backward=both_backward)
    assert "return the same names in the same order everywhere" in str(caught.value) and caught.value.span is not None
    assert not hasattr(torch.ops.tests_backward, kernel.__name__)


@pl.jit
def in_one_order(x: pl.Tensor, flip: bool, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0
        new = x * 3.0
    if flip:
        return out, new
    return out, new


@pl.jit
def in_a_name_of_its_own(x: pl.Tensor, flip: bool, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0
        new = x * 3.0
    pair = (out, new)
    return pair


@pytest.mark.parametrize("kernel", [in_one_order, in_a_name_of_its_own], ids=lambda kernel: kernel.__name__)
def test_each_of_several_results_has_its_own_gradient(kernel: Any) -> None:
    op = kernel.as_torch_op(f"tests_backward::{kernel.__name__}", backward=both_backward)
    for flip in (True, False):
        for place, slope in ((0, 2.0), (1, 3.0)):
            assert both_ways(lambda x, flip=flip, place=place: op(x, flip)[place]) == (slope, slope)


@pl.jit.inline
def filled(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Tensor[[4, 8], pl.FP32]):
    out[:] = x * 2.0
    new = x * 3.0
    return out, new


@pl.jit
def in_a_helper(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        found = filled(x, out)
    return found


@pl.jit
def of_a_helper(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        _, new = filled(x, out)
    return new, out


def test_results_whose_order_only_a_helper_knows_have_no_gradients() -> None:
    with pytest.raises(ArgumentError, match="only the call knows in which order") as caught:
        in_a_helper.as_torch_op("tests_backward::in_a_helper", backward=one_backward)
    assert "`return new, out`" in str(caught.value)
    op = of_a_helper.as_torch_op("tests_backward::of_a_helper", backward=both_backward)  # as the help says
    assert [both_ways(lambda x, place=place: op(x)[place]) for place in (0, 1)] == [(3.0, 3.0), (2.0, 2.0)]


@pl.jit
def swapped(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    new = pl.create_tensor([4, 8], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0
        new[:] = x * 3.0
    out, new = new, out
    return out, new


@pl.jit
def swapped_backward(grad_out: pl.Tensor, grad_new: pl.Tensor, grad_x: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        grad_x[:] = grad_out * 2.0 + grad_new * 3.0


def test_an_output_whose_name_is_given_to_another_tensor_has_no_gradient() -> None:
    with pytest.raises(ArgumentError, match="`swapped` returns `out`, which an unpacking binds"):
        swapped.as_torch_op("tests_backward::swapped", backward=swapped_backward)


@pl.jit
def sum_of(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0 + y * 3.0


@pl.jit
def sum_of_backward(x: pl.Tensor, grad_out: pl.Tensor, grad_x: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        grad_x[:] = grad_out * 2.0
        grad_y = grad_out * 3.0
    if x.shape[0] > 4:
        return grad_y, grad_x
    return grad_x, grad_y


def test_gradients_in_two_orders_are_refused() -> None:
    with pytest.raises(ArgumentError, match="`sum_of_backward` returns grad_y, grad_x here and grad_x, grad_y elsewhere"):
        sum_of.as_torch_op("tests_backward::sum_of", backward=sum_of_backward)


# what is written in place ----------------------------------------------------------------------------------------------------


def _in_place(way: str) -> tuple[Any, Any]:
    @pl.jit
    def square(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * x

    op = square.as_torch_op(f"tests_backward::square_{way}", in_place=True)
    return op, torch.compile(op, backend="aot_eager", fullgraph=True) if way == "graph" else op


@pytest.mark.parametrize("way", ["call", "graph"])
def test_an_operator_that_writes_in_place_warns_once_that_there_is_no_gradient(way: str) -> None:
    _, call = _in_place(way)
    x = torch.ones(4, 8, requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with torch.no_grad():
            call(x, torch.zeros(4, 8))
        call(x.detach(), torch.zeros(4, 8))
        assert not [warning for warning in caught if warning.category is TilejitWarning]
        for _ in range(2):
            out = torch.zeros(4, 8)
            call(x, out)
            assert out[0, 0] == 1 and not out.requires_grad
    found = [warning for warning in caught if warning.category is TilejitWarning]
    assert len(found) == 1 and "square: `x` requires grad" in str(found[0].message)
    assert way == "graph" or found[0].filename == __file__
