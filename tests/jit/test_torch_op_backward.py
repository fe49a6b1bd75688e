"""The backward of an operator goes with its forward: in calls, in compiled graphs, after a default has changed and after its module was loaded again."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

import tilejit.language as pl
from tilejit.errors import ArgumentError

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
