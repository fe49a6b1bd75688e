"""Every row of docs/choices.md, on every platform.

tests/language has those about kernels side by side, backends/cpu those about threads, suite/public_* those about forms of public programs.
"""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import AliasError, OutOfBoundsError, TilejitError

pytestmark = pytest.mark.usefixtures("platform")

ROWS = pl.dynamic("ROWS")
INTEGERS = np.array([[-7, 7, -8, 2**31 - 1]], np.int32)


@pl.jit
def divide(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a / b


def test_integer_division_of_tensors_truncates() -> None:
    np.testing.assert_array_equal(divide(INTEGERS, np.array([[2, -2, 3, 2]], np.int32)), [[-3, -3, -2, 2**30 - 1]])


@pl.jit
def floor_of_scalars(cfg: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.read(cfg, [0])
        b = pl.read(cfg, [1])
        pl.write(out, [0], a // b)
        pl.write(out, [1], a % b)
        pl.write(out, [2], pl.cast(-7 // 2, pl.INT32))
        pl.write(out, [3], pl.cast(-7 % 2, pl.INT32))


@pytest.mark.parametrize(("a", "b"), [(-7, 2), (7, -2), (7, 2), (-8, 2)])
def test_floor_division_and_remainder_of_scalars_are_pythons(a: int, b: int) -> None:
    out = np.zeros(4, np.int32)
    floor_of_scalars(np.array([a, b], np.int32), out)
    np.testing.assert_array_equal(out, [a // b, a % b, -7 // 2, -7 % 2])


@pl.jit
def plus_one(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + 1


def test_integer_overflow_wraps() -> None:
    np.testing.assert_array_equal(plus_one(INTEGERS), [[-6, 8, -7, -(2**31)]])


@pl.jit
def shift(x: pl.Tensor, by: pl.Tensor, left: pl.Out[pl.Tensor], right: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        left[:] = pl.shl(x, by)
        right[:] = pl.shr(x, by)


def test_shifts_by_the_width_or_more_give_zero_or_the_sign() -> None:
    left, right = shift(np.array([[-5, 5, -5]], np.int32), np.array([[32, 40, 1]], np.int32))
    np.testing.assert_array_equal(left, [[0, 0, -10]])
    np.testing.assert_array_equal(right, [[-1, 0, -3]])


@pl.jit
def to_int8(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(x, pl.INT8)


def test_float_to_integer_saturates_and_nan_becomes_zero() -> None:
    np.testing.assert_array_equal(to_int8(np.array([[1e9, -np.inf, np.nan, 3.0]], np.float32)), [[127, -128, 0, 3]])


@pl.jit
def largest(x: pl.Tensor, y: pl.Tensor, pair: pl.Out[pl.Tensor], row: pl.Out[pl.Tensor], where: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pair[:] = pl.maximum(x, y)
        row[:] = pl.row_max(x)
        where[:] = pl.row_argmax(y)


def test_maxima_propagate_nan_and_argmax_takes_the_first() -> None:
    x = np.array([[1, np.nan, 3, 0, 5], [1, 2, 3, 0, 5]], np.float32)
    y = np.array([[2, 2, 7, 7, 0], [0, 0, 0, 0, 0]], np.float32)
    pair, row, where = largest(x, y)
    np.testing.assert_array_equal(pair, np.maximum(x, y))
    np.testing.assert_array_equal(row, [[np.nan], [5]])
    np.testing.assert_array_equal(where, [[2], [0]])


@pl.jit
def tile_times_float(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.mul(pl.load(x, [0, 0], [1, 3]), 2.0), [0, 0], out)


@pl.jit
def tensor_times_float(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0


@pl.jit
def tensor_times_integer(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2


def test_a_scalar_keeps_the_dtype_of_a_tile_and_promotes_a_tensor() -> None:
    half = np.array([[1, 2, 3]], np.float16)
    for kernel, dtype in ((tile_times_float, np.float16), (tensor_times_float, np.float32), (tensor_times_integer, np.float16)):
        result = kernel(half)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, [[2, 4, 6]])


@pl.jit
def half_precision(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = (x * y) * y - x


def test_half_precision_rounds_after_every_operator() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((5, 33)).astype(np.float16), rng.standard_normal((5, 33)).astype(np.float16)
    np.testing.assert_array_equal(half_precision(x, y), (x * y) * y - x)


@pl.jit
def window(x: pl.Tensor, at: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [pl.cast(pl.read(at, [0]), pl.INDEX), 0], [4, 8])
        pl.store(t, [0, 0], out)


@pl.jit
def clamped_window(x: pl.Tensor, at: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [pl.cast(pl.read(at, [0]), pl.INDEX), 0], [4, 8], clamp=True)
        pl.store(t, [0, 0], out)


def test_a_window_outside_is_an_error_unless_clamped() -> None:
    x, out = np.random.default_rng(1).standard_normal((6, 8), np.float32), np.zeros((4, 8), np.float32)
    with pytest.raises(OutOfBoundsError):
        window(x, np.array([3], np.int32), out)
    clamped_window(x, np.array([3], np.int32), out)
    np.testing.assert_array_equal(out, [*x[3:], np.zeros(8)])


@pl.jit
def first_rows(x: pl.Tensor, out: pl.Out[pl.Tensor[[6, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:2, :] = x[0:2, :]


def test_outputs_that_are_allocated_are_filled_with_zeros() -> None:
    x = np.random.default_rng(2).standard_normal((6, 8), np.float32)
    np.testing.assert_array_equal(first_rows(x), [*x[:2], *np.zeros((4, 8))])


@pl.jit
def square(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * x


@pl.jit
def flip(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.transpose(x, 0, 1)


@pl.jit
def fold_over(x: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x[:] = pl.transpose(x, 0, 1) + x


def test_an_output_that_overlaps_an_argument_is_refused_and_inout_updates_in_place() -> None:
    x = np.random.default_rng(3).standard_normal((7, 7), np.float32)
    expected = x.T + x
    with pytest.raises(AliasError):
        flip(x, x)
    with pytest.raises(AliasError):
        square(x[:6], x[1:])
    fold_over(x)
    np.testing.assert_array_equal(x, expected)


@pl.jit
def sums(x: pl.Tensor[[4, ROWS], pl.FP32], out: pl.Out[pl.Tensor[[4, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_sum(x)


@pl.jit
def maxima(x: pl.Tensor[[4, ROWS], pl.FP32], out: pl.Out[pl.Tensor[[4, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_max(x)


def test_an_extent_of_zero_sums_to_zero_and_has_no_maximum() -> None:
    nothing = np.empty((4, 0), np.float32)
    np.testing.assert_array_equal(sums(nothing), np.zeros((4, 1)))
    with pytest.raises(TilejitError):
        maxima(nothing)


def test_inputs_may_have_any_strides() -> None:
    x = np.random.default_rng(4).standard_normal((9, 22), np.float32)
    for view in (x[:, ::2], x.T, x[::-1, 3:17]):
        np.testing.assert_array_equal(square(view), view * view)


@pl.jit
def skipped_rounds(x: pl.Tensor, cfg: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        start = pl.load(x, [0, 0], [1, 4])
        for i, (value,) in pl.range(5, init_values=(start,)):
            if i == cfg[0]:
                continue
            result = pl.yield_(pl.add(value, 1.0))
        pl.store(result, [0, 0], out)
    return out


def test_a_round_that_continues_yields_nothing() -> None:
    x, out = np.array([[1, 2, 3, 4]], np.float32), np.zeros((1, 4), np.float32)
    skipped_rounds(x, np.array([2], np.int32), out)
    np.testing.assert_array_equal(out, x + 4)


@pl.jit
def three_arms(x: pl.Tensor, cfg: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        start = pl.load(x, [0, 0], [1, 4])
        if cfg[0] > 1:
            result = pl.yield_(start)
        elif cfg[0] > 0:
            result = pl.yield_(pl.neg(start))
        else:
            result = pl.yield_(pl.add(start, start))
        pl.store(result, [0, 0], out)
    return out


@pytest.mark.parametrize(("flag", "factor"), [(2, 1), (1, -1), (0, 2)])
def test_every_arm_yields_for_the_whole_statement(flag: int, factor: int) -> None:
    x, out = np.array([[1, 2, 3, 4]], np.float32), np.zeros((1, 4), np.float32)
    three_arms(x, np.array([flag], np.int32), out)
    np.testing.assert_array_equal(out, factor * x)


@pl.jit.incore
def shifted(x: pl.Tensor[[ROWS, 3], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 3], pl.FP32]], amount: pl.FP32, state: pl.InOut[pl.Tensor[[ROWS, 1], pl.FP32]]):
    state[:] = state + pl.row_sum(x)
    out[:] = x + amount
    return out, state


@pl.jit
def submits_inputs_only(x: pl.Tensor, out: pl.Out[pl.Tensor], state: pl.Out[pl.Tensor]):
    (a, s), first = pl.submit(shifted, x, 2.0)
    (b, s), _ = pl.submit(shifted, a, 3.0, s, deps=[first])
    out[:] = b
    state[:] = s


def test_outputs_left_out_of_a_submit_are_new_and_zero() -> None:
    x = np.random.default_rng(5).standard_normal((4, 3)).astype(np.float32)
    out, state = np.empty_like(x), np.empty((4, 1), np.float32)
    submits_inputs_only(x, out, state)
    np.testing.assert_allclose(out, x + 5, rtol=1e-6)
    np.testing.assert_allclose(state, (2 * x + 2).sum(1, keepdims=True), rtol=1e-5)


@pl.jit
def updates(table: pl.Tensor, rows: pl.Tensor, new: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.scatter_update(table, -2, rows, new)


def test_scatter_update_changes_its_tensor() -> None:
    table, new = np.zeros((5, 2), np.float32), np.array([[1, 2], [3, 4]], np.float32)
    updates(table, np.array([[4, 1]], np.int32), new)
    np.testing.assert_array_equal(table[[4, 1]], new)
    assert not table[[0, 2, 3]].any()


@pl.jit
def turned_before_a_write(x: pl.Tensor):
    t = x * 1.0
    turned, whole = pl.permute(t, [2, 0, 1]), pl.permute(t, [0, 1, 2])
    t[:] = 0.0
    return turned, whole


def test_permute_makes_a_result_of_its_own_where_it_changes_the_order() -> None:
    x = np.random.default_rng(4).standard_normal((2, 3, 4), np.float32)
    turned, whole = turned_before_a_write(x)
    np.testing.assert_array_equal(turned, x.transpose(2, 0, 1))
    assert not whole.any()
