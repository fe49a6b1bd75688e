"""A `@pl.jit` kernel calls another one, in place or for its results; kernels give back numbers."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import StaticAssertionError
from tilejit.runtime.config import RunConfig

X = np.random.default_rng(0).standard_normal((5, 8), np.float32)
PLATFORMS = ["cpu", "reference"]


@pl.jit
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        out[:] = pl.row_expand_div(e, pl.row_sum(e))


@pl.jit
def totals(x: pl.Tensor):
    return pl.row_sum(x)


@pl.jit
def everything(x: pl.Tensor, out: pl.Out[pl.Tensor], sums: pl.Out[pl.Tensor]):
    given = pl.create_tensor([x.shape[0], x.shape[1]], dtype=pl.FP32)
    softmax(x, given)
    made = softmax(x * 2.0)
    out[:] = given + made
    sums[:] = totals(made)


def numpy_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_kernel_calls_kernels(platform: str) -> None:
    out, sums = everything(X, config=RunConfig(platform=platform))
    np.testing.assert_allclose(out, numpy_softmax(X) + numpy_softmax(2 * X), rtol=1e-5)
    np.testing.assert_allclose(sums, np.ones((5, 1)), rtol=1e-5)


@pl.jit
def largest(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        best = pl.read(x, [0, 0])
        row = 0
        for i in pl.range(x.shape[0]):
            value = pl.read(x, [i, 0])
            if value > best:
                best = value
                row = i
        out[:] = x - best
    return best, row


@pytest.mark.parametrize("platform", PLATFORMS)
def test_numbers_come_back_before_outputs_that_were_left_out(platform: str) -> None:
    for _ in range(4):
        best, row, out = largest(X, config=RunConfig(platform=platform))
        assert (type(best), type(row)) == (float, int)
        assert (best, row) == (X[:, 0].max(), X[:, 0].argmax())
        np.testing.assert_array_equal(out, X - best)
    given = np.empty_like(X)
    assert largest(X, given) == (X[:, 0].max(), X[:, 0].argmax())


@pytest.mark.parametrize("platform", PLATFORMS)
def test_numbers_survive_on_disk_and_in_compiled_programs(platform: str) -> None:
    compiled = largest.compile(X, config=RunConfig(platform=platform))
    assert compiled(X)[:2] == (X[:, 0].max(), X[:, 0].argmax())


@pl.jit
def checked(x: pl.Tensor, rows: int, out: pl.Out[pl.Tensor]):
    assert x.shape[0] == rows, f"{rows} rows, not {x.shape[0]}"
    with pl.at(level=pl.Level.CORE_GROUP):
        first = pl.read(x, [0, 0])
        assert first > 0.0, "the first cell is positive"
        out[:] = x


@pytest.mark.parametrize("platform", PLATFORMS)
def test_an_assertion_is_decided_while_compiling_or_checked_in_the_run(platform: str) -> None:
    config = RunConfig(platform=platform)
    np.testing.assert_array_equal(checked(np.abs(X), 5, config=config), np.abs(X))
    with pytest.raises(StaticAssertionError, match="assertion failed: 4 rows, not 5"):
        checked(X, 4, config=config)
    with pytest.raises(AssertionError, match="the first cell is positive"):
        checked(-np.abs(X), 5, config=config)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_comprehensions_and_loops_over_what_is_known(platform: str) -> None:
    @pl.jit
    def polynomial(x: pl.Tensor, coefficients: tuple[float, ...], out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            scaled = [c * 2.0 for c in coefficients if c != 0.0]
            named = {f"c{i}": c for i, c in enumerate(scaled)}
            y = x * 0.0
            for c in reversed(scaled):
                y = y * x + c
            terms = [x * c for c in scaled]
            for i, (term, (key, c)) in enumerate(zip(terms, named.items())):
                y = y + term * float(i) + named[key] * c
            out[:] = y + sum(c for c in scaled)

    coefficients = (1.5, 0.0, -2.0, 0.25)
    scaled = [3.0, -4.0, 0.5]
    want = np.polyval(scaled[::-1], X) + sum(X * c * i + c * c for i, c in enumerate(scaled)) + sum(scaled)
    np.testing.assert_allclose(polynomial(X, coefficients, config=RunConfig(platform=platform)), want, rtol=1e-4, atol=1e-4)
