"""Reshapes to an extent of -1: what is left is computed while compiling, or by the run, which checks that the division is exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import ShapeError

pytestmark = pytest.mark.dispatch
rng = np.random.default_rng(4)
ROWS, COLUMNS = pl.dynamic("ROWS"), pl.dynamic("COLUMNS")


def data(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape, np.float32)


@pl.jit
def of_a_tensor(x: pl.Tensor[[ROWS, 6], pl.FP32], out: pl.Out[pl.Tensor]):
    out[:] = x.reshape(-1, 4) + 1.0


@pl.jit
def of_a_value(x: pl.Tensor[[ROWS, 6], pl.FP32]):
    return (x + 1.0).reshape(-1, 4)


@pl.jit
def in_a_region(x: pl.Tensor[[ROWS, 6], pl.FP32], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = pl.reshape(x * 1.0, [-1, 4]) + 1.0
    out[:] = y


@pl.jit
def of_a_window(x: pl.Tensor[[ROWS, 6], pl.FP32], out: pl.Out[pl.Tensor]):
    out[:] = x[0:, :].reshape(-1, 4) + 1.0


@pytest.mark.parametrize("kernel", [of_a_tensor, of_a_value, in_a_region, of_a_window], ids=lambda kernel: kernel.__name__)
def test_what_is_left_is_computed_from_the_extents_of_the_run(kernel: Any, platform: str) -> None:
    before = len(kernel._cache)
    for rows in (2, 6, 34):
        x = data(rows, 6)
        np.testing.assert_allclose(kernel(x), (x + 1).reshape(-1, 4), rtol=1e-6)
    with pytest.raises(ShapeError, match="the elements to reshape, and the largest multiple of the other extents: 18 and 16"):
        kernel(data(3, 6))
    assert len(kernel._cache) == before + 1


@pl.jit
def cancelled(x: pl.Tensor[[ROWS, COLUMNS, 6], pl.FP32], out: pl.Out[pl.Tensor]):
    out[:] = (x * 2.0).reshape(-1, x.shape[1], 3)


@pl.jit
def last(x: pl.Tensor[[ROWS, COLUMNS, 6], pl.FP32], out: pl.Out[pl.Tensor]):
    out[:] = x.reshape(x.shape[0], x.shape[1], 2, -1).sum(3)


@pl.jit
def flat(x: pl.Tensor[[ROWS, COLUMNS, 6], pl.FP32]):
    y = x.reshape(-1)
    return pl.reshape(y, (x.shape[0], -1)), y


def test_extents_of_one_name_cancel(platform: str) -> None:
    for rows, columns in ((5, 3), (1, 7), (4, 1)):
        x = data(rows, columns, 6)
        np.testing.assert_array_equal(cancelled(x), (x * 2).reshape(-1, columns, 3))
        np.testing.assert_allclose(last(x), x.reshape(rows, columns, 2, -1).sum(3), rtol=1e-5, atol=1e-6)
        matrix, line = flat(x)
        np.testing.assert_array_equal(matrix, x.reshape(rows, -1))
        np.testing.assert_array_equal(line, x.reshape(-1))


@pl.jit
def by_a_scalar(x: pl.Tensor[[ROWS, 6], pl.FP32], n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[1], pl.FP32]]):
    y = x.reshape(n, -1)
    out[0:1] = pl.reshape(pl.row_sum(y[1:2, :]), [1])


by_a_run_time_scalar = pl.jit(runtime_scalars=["n"])(by_a_scalar.definition.function)


@pytest.mark.parametrize("kernel", [by_a_scalar, by_a_run_time_scalar], ids=["folded", "run time"])
def test_another_extent_may_be_a_scalar(kernel: Any, platform: str) -> None:
    x = data(5, 6)
    for n in (2, 3, 15):
        np.testing.assert_allclose(kernel(x, n), x.reshape(n, -1)[1].sum()[None], rtol=1e-5, atol=1e-6)
    for wrong in (4, 0, -5):
        with pytest.raises(ShapeError):
            kernel(x, wrong)


@pl.jit
def two_scalars(x: pl.Tensor, n: pl.Scalar[pl.INDEX], m: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[1], pl.INT32]]):
    out[0:1] = pl.cast(x.reshape(n, m).shape[0], pl.INT32)


def test_negative_extents_of_the_run_are_refused(platform: str) -> None:
    kernel = pl.jit(runtime_scalars=["n", "m"])(two_scalars.definition.function)
    np.testing.assert_array_equal(kernel(data(4, 6), 3, 8), [3])
    with pytest.raises(ShapeError, match="the least extent that a reshape takes, and this one: 0 and -3"):
        kernel(data(4, 6), -3, -8)


@pl.jit
def beside_a_symbol(x: pl.Tensor[[4, 6], pl.FP32], w: pl.Tensor[[COLUMNS], pl.FP32], n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[1, COLUMNS], pl.FP32]]):
    out[:] = (x + 1.0).reshape(n, w.shape[0])[1:2, :] * w


def test_a_run_time_extent_beside_a_symbol_is_not_taken_for_all_elements(platform: str) -> None:
    kernel = pl.jit(runtime_scalars=["n"])(beside_a_symbol.definition.function)
    x, w = data(4, 6), data(8)
    np.testing.assert_allclose(kernel(x, w, 3), (x + 1).reshape(3, 8)[1:2] * w, rtol=1e-6)


@pl.jit
def constant(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x.reshape(3, -1)


def test_the_shape_of_an_output_that_is_left_out_is_told_by_the_rest(platform: str) -> None:
    x = data(5, 6)
    np.testing.assert_array_equal(constant(x), x.reshape(3, -1))


@pl.jit
def untold(x: pl.Tensor, n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor]):
    out[:] = (x + 1.0).reshape(n, -1)


def test_an_output_of_run_time_extents_is_named(platform: str) -> None:
    kernel = pl.jit(runtime_scalars=["n"])(untold.definition.function)
    with pytest.raises(ShapeError, match="the shape of output `out` of `untold` cannot be told"):
        kernel(data(4, 6), 3)
    x, out = data(4, 6), np.empty((3, 8), np.float32)
    kernel(x, 3, out)
    np.testing.assert_allclose(out, (x + 1).reshape(3, -1), rtol=1e-6)
