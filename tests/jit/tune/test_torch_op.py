"""Tuned kernels as operators of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

import tilejit.language as pl
from tests.jit.tune.kernels import counted, scaled
from tilejit.errors import ArgumentError, StaticAssertionError
from tilejit.jit.tune.space import Choice

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def _tuned(kernel: Any, *rows: int, seen: list[int]) -> Any:
    def larger_is_faster(candidate: Choice, run: Callable[[], object]) -> float:
        run()
        seen.append(cast("int", candidate.arguments["rows"]))
        return 1.0 / seen[-1]

    return pl.autotune({"rows": list(rows)}, progress=False, effort="full", timer=larger_is_faster)(kernel)


@pl.jit
def scaled_backward(grad_out: pl.Tensor, grad_x: pl.Out[pl.Tensor], rows: int = 4):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(grad_out.shape[0] // rows):
            pl.store(pl.load(grad_out, [i * rows, 0], [rows, grad_out.shape[1]]) * 2.0, [i * rows, 0], grad_x)


def test_what_is_tuned_is_no_argument_and_is_found_when_the_operator_first_runs() -> None:
    seen: list[int] = []
    op = _tuned(scaled, 5, 4, 8, seen=seen).as_torch_op("tilejit_tuned::scaled")
    assert "rows" not in str(op._opoverload._schema) and not seen
    x = torch.randn(24, 8)
    torch.testing.assert_close(op(x), 2 * x)
    assert set(seen) == {4, 8}  # 24 rows are no multiple of 5
    torch.testing.assert_close(torch.compile(lambda x: op(x) + 1, fullgraph=True, backend="eager")(x), 2 * x + 1)
    torch.library.opcheck(op, (x,))


def test_gradients_come_from_a_tuned_backward() -> None:
    op = _tuned(scaled, 4, 8, seen=[]).as_torch_op("tilejit_tuned::scaled_with_gradient", backward=_tuned(scaled_backward, 4, 8, seen=[]))
    x = torch.randn(16, 8, requires_grad=True)
    op(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 2.0))


def test_what_it_writes_is_written_once() -> None:
    op = _tuned(counted, 4, 8, seen=[]).as_torch_op("tilejit_tuned::counted")
    x, total = torch.randn(16, 8), torch.zeros(16, 8)
    op(total, x)
    torch.testing.assert_close(total, x)


def test_shapes_that_no_candidate_takes_are_an_error() -> None:
    op = _tuned(scaled, 4, 8, seen=[]).as_torch_op("tilejit_tuned::scaled_by_none")
    assert op(torch.empty(16, 8, device="meta")).shape == (16, 8)
    with pytest.raises(StaticAssertionError, match="shape"):
        op(torch.empty(7, 8, device="meta"))


def test_another_tuning_under_the_same_name_is_refused() -> None:
    one, other = (_tuned(scaled, *rows, seen=[]) for rows in ((4, 8), (2, 4)))
    one.as_torch_op("tilejit_tuned::scaled_twice")
    assert one.as_torch_op("tilejit_tuned::scaled_twice") is not None
    with pytest.raises(ArgumentError, match="scaled_twice"):
        other.as_torch_op("tilejit_tuned::scaled_twice")
