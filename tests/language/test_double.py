"""FP64 keeps its digits everywhere: literals, scalars, carried values, calls from NumPy and torch; nothing else becomes wider by it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import RunConfig, ir
from tilejit.errors import DTypeError

X = np.random.default_rng(1).normal(size=(5, 33))
THIRD = 1 / 3


@pytest.fixture(params=["reference", "cpu"])
def config(request: pytest.FixtureRequest) -> RunConfig:
    return RunConfig(platform=request.param)


def same(got: Any, wanted: Any, ulps: float = 2) -> None:
    assert np.asarray(got).dtype == np.float64
    np.testing.assert_allclose(got, wanted, rtol=ulps * 2.0**-52, atol=1e-300)


@pl.jit
def literals(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = (x * 0.1 + THIRD) / 0.7 - 0.3


@pl.jit
def tile_literals(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tile = pl.load(x, [0, 0], [5, 33])
        base = pl.tile.full([5, 33], dtype=pl.FP64, value=0.1)
        pl.store(pl.maximum(tile * 0.1 + base, 0.3), [0, 0], out)


@pl.jit
def elements(x: pl.Tensor, out: pl.Out[pl.Tensor[[4], pl.FP64]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = 0.1
        for i in pl.range(5):
            total = total + x[i, 0] * 0.1
        out[0] = total
        out[1] = 0.1
        out[2] = pl.exp(x[0, 0]) * THIRD
        out[3] = pl.const(0.1, pl.FP64)


@pl.jit
def scaled(x: pl.Tensor, factor: float, out: pl.Out[pl.Tensor]):
    out[:] = x * factor


@pl.jit
def shifted(x: pl.Tensor, step: pl.Scalar[pl.FP64], out: pl.Out[pl.Tensor]):
    out[:] = x + step


@pl.jit(runtime_scalars=("step",))
def shifted_at_run_time(x: pl.Tensor, step: pl.Scalar[pl.FP64], out: pl.Out[pl.Tensor]):
    out[:] = x + step


@pl.jit
def gradual(x: pl.Tensor):
    return pl.gelu(x), pl.softplus(x), pl.silu(x)


def test_literals_next_to_doubles_have_all_their_digits(config: RunConfig) -> None:
    same(literals(X, config=config), (X * 0.1 + THIRD) / 0.7 - 0.3, 16)
    same(tile_literals(X, config=config), np.maximum(X * 0.1 + 0.1, 0.3), 2)


def test_scalars_and_carried_numbers_have_all_their_digits(config: RunConfig) -> None:
    total = 0.1
    for i in range(5):
        total += X[i, 0] * 0.1
    same(elements(X, config=config), [total, 0.1, math.exp(X[0, 0]) * THIRD, 0.1], 4)


def test_scalar_arguments_have_all_their_digits(config: RunConfig) -> None:
    for number in (0.1, np.float64(0.1)):
        same(scaled(X, number, config=config), X * 0.1)
        same(shifted(X, number, config=config), X + 0.1)
        same(shifted_at_run_time(X, number, config=config), X + 0.1)


def test_numpy_numbers_stay_what_python_numbers_are_next_to_single_precision(config: RunConfig) -> None:
    single = X.astype(np.float32)
    out = scaled(single, np.float64(0.1), config=config)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, scaled(single, 0.1, config=config))


def test_derived_functions_are_computed_in_double(config: RunConfig) -> None:
    gelu, softplus, silu = gradual(X, config=config)
    same(gelu, [[x * 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in row] for row in X], 512)
    same(softplus, np.log1p(np.exp(-np.abs(X))) + np.maximum(X, 0), 16)
    same(silu, X / (1 + np.exp(-X)), 8)


def test_the_text_of_a_kernel_keeps_the_digits() -> None:
    program = literals.lower(X, np.empty_like(X))
    again = pl.parse(program.as_python())
    assert ir.structural_equal(program, again)
    assert "pl.const(0.1, pl.FP64)" in program.as_python()


@pytest.mark.parametrize("order", [1, -1])
def test_one_kernel_serves_both_precisions(order: int) -> None:
    for array in (X.astype(np.float32), X)[::order]:
        for _ in range(3):
            out = scaled(array, 0.1)
            assert out.dtype == array.dtype
            np.testing.assert_allclose(out, array * array.dtype.type(0.1), rtol=1e-6 if array.dtype == np.float32 else 1e-15)


@pytest.mark.torch
def test_torch_tensors_of_double_precision_run() -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X)
    for _ in range(3):
        out = scaled(x, 0.1)
        assert out.dtype == torch.float64
        torch.testing.assert_close(out, x * 0.1, rtol=0, atol=0)


def test_an_annotation_of_single_precision_refuses_doubles() -> None:
    @pl.jit
    def only_single(x: pl.Tensor[[5, 33], pl.FP32], out: pl.Out[pl.Tensor]):
        out[:] = x * 2.0

    with pytest.raises(DTypeError, match="`x` must hold FP32, got FP64"):
        only_single(X)


def test_mixed_precisions_promote(config: RunConfig) -> None:
    @pl.jit
    def mixed(x: pl.Tensor, y: pl.Tensor):
        return x * y

    single = X.astype(np.float32)
    same(mixed(X, single, config=config), X * single.astype(np.float64))
    same(mixed(X, np.arange(33, dtype=np.int64)[None], config=config), X * np.arange(33.0))


def test_rows_add_in_the_order_of_numpy_without_fast_math() -> None:
    @pl.jit
    def sums(x: pl.Tensor):
        return pl.row_sum(x), pl.row_prod(x), pl.col_sum(x)

    wide = np.random.default_rng(2).normal(size=(3, 1001))
    rows, products, columns = sums(wide, config=RunConfig(platform="cpu", fast_math=False))
    np.testing.assert_array_equal(rows[:, 0], wide.sum(1))
    np.testing.assert_array_equal(products[:, 0], wide.prod(1))
    np.testing.assert_array_equal(columns[0], np.add.accumulate(wide, 0)[-1])
