"""Several threads: loops that are not independent, failures of one thread, atomics."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilejit.language as pl
from tests.backends.cpu.pool import shared
from tests.backends.cpu.test_team import COUNTS, NDArray, compiled, data
from tilejit import RunConfig
from tilejit.errors import OutOfBoundsError


@pl.jit
def same_place(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    tmp = pl.create_tensor([8, 200], dtype=pl.FP32)
    for i in pl.parallel(40):
        with pl.at(level=pl.Level.CORE_GROUP):
            tmp = pl.store(pl.exp(pl.load(x, [i * 8, 0], [8, 200])), [0, 0], tmp)
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.store(pl.load(tmp, [0, 0], [8, 200]), [i * 8, 0], out)
    return out


def test_trips_that_all_write_one_buffer_run_one_after_the_other() -> None:
    x = data(4, 320, 200)
    out = np.empty_like(x)
    program = compiled(same_place, x, out)
    with shared(False):
        program(x, out, config=RunConfig(num_threads=8))
    np.testing.assert_allclose(out, np.exp(x), rtol=1e-5)


@pl.jit
def overlapping(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    for i in pl.parallel(300):
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.store(pl.exp(pl.load(x, [i, 0], [20, 200])), [i, 0], out)
    return out


def test_windows_that_overlap_against_the_authors_word_do_no_harm() -> None:
    x = data(5, 320, 200)
    out = np.empty_like(x)
    program = compiled(overlapping, x, out)
    for count in COUNTS:
        program(x, out, config=RunConfig(num_threads=count))
        np.testing.assert_allclose(out[:319], np.exp(x[:319]), rtol=1e-5)


@pl.jit
def dependent(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.exp(x)
    with pl.at(level=pl.Level.CORE_GROUP):
        b[:] = pl.sqrt(a)
    return a, b


def test_launches_that_need_each_other_keep_their_order() -> None:
    x = data(6, 320, 200)
    a, b = np.empty_like(x), np.empty_like(x)
    program = compiled(dependent, x, a, b)
    for _ in range(20):
        a[:], b[:] = 0, 0
        program(x, a, b, config=RunConfig(num_threads=2))
        np.testing.assert_allclose(b, np.exp(x / 2), rtol=1e-5)


# failures ---------------------------------------------------------------------------------------------------------------


@pl.jit
def picked_rows(x: pl.Tensor, at: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(40):
        row = pl.read(at, [i])
        out = pl.store(pl.exp(pl.exp(pl.load(x, [row, 0], [8, 200]))), [i * 8, 0], out)
    return out


@pl.jit
def picked_in_a_loop(x: pl.Tensor, at: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(40):
            row = pl.read(at, [i])
            out = pl.store(pl.exp(pl.exp(pl.load(x, [row, 0], [8, 200]))), [i * 8, 0], out)
    return out


@pytest.mark.parametrize("kernel", [picked_rows, picked_in_a_loop], ids=["spmd", "parallel"])
@pytest.mark.parametrize("bad", [(0,), (39,), (3, 5, 20), (17, 18, 19, 38)])
def test_the_lowest_failing_block_is_reported_whatever_the_number_of_threads(kernel: Any, bad: tuple[int, ...]) -> None:
    x, out = data(7, 320, 200), np.empty((320, 200), np.float32)
    at = np.arange(40, dtype=np.int32) * 8
    program = compiled(kernel, x, at, out)
    at[list(bad)] = 1000 + np.array(bad)
    messages: set[str] = set()
    for count in (*COUNTS, 2, 3, 8):
        with pytest.raises(OutOfBoundsError) as found:
            program(x, at, out, config=RunConfig(num_threads=count))
        messages.add(str(found.value))
    assert len(messages) == 1
    assert str(1000 + bad[0]) in messages.pop()


# atomics ----------------------------------------------------------------------------------------------------------------


@pl.jit
def summed(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    for i in pl.spmd(64):
        t = pl.load(x, [i * 4, 0], [4, 72])
        squares = pl.mul(t, t)
        for _ in pl.range(12):
            squares = pl.maximum(pl.mul(squares, t), pl.sub(squares, t))
        out = pl.store(squares, [1, 3], out, atomic=pl.AtomicType.Add)
    return out


def summed_by_hand(x: NDArray) -> NDArray:
    t = x
    squares = t * t
    for _ in range(12):
        squares = np.maximum(squares * t, squares - t)
    return squares.reshape(64, 4, 72)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
def test_atomic_adds_of_integers_are_exact_on_any_number_of_threads(dtype: Any) -> None:
    x = np.random.default_rng(8).integers(0, 3, (256, 72)).astype(dtype)
    program = compiled(summed, x, np.zeros((6, 80), dtype))
    want = np.ones((6, 80), dtype)
    want[1:5, 3:75] += summed_by_hand(x).sum(0, dtype=dtype)
    for count in (1, 2, 8, 8, 8):
        out = np.ones((6, 80), dtype)
        with shared(count > 1):
            program(x, out, config=RunConfig(num_threads=count))
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_atomic_adds_of_floats_lose_no_addend(dtype: Any) -> None:
    # Small integers, so that every order of summation is exact in every dtype.
    x = np.random.default_rng(9).integers(0, 2, (256, 72)).astype(dtype)
    program = compiled(summed, x, np.zeros((6, 80), dtype))
    want = np.zeros((6, 80), np.float64)
    want[1:5, 3:75] = summed_by_hand(x.astype(np.float64)).sum(0)
    for count in (1, 2, 8, 8, 8):
        out = np.zeros((6, 80), dtype)
        with shared(count > 1):
            program(x, out, config=RunConfig(num_threads=count))
        np.testing.assert_array_equal(out.astype(np.float64), want)


@pl.jit
def replaced_and_added(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    for i in pl.spmd(64):
        t = pl.exp(pl.exp(pl.load(x, [i * 4, 0], [4, 72])))
        out = pl.store(t, [0, 0], out)
        out = pl.store(t, [0, 0], out, atomic=pl.AtomicType.Add)
    return out


def test_a_plain_write_beside_an_atomic_one_keeps_blocks_in_order() -> None:
    x, out = data(10, 256, 72), np.zeros((4, 72), np.float32)
    program = compiled(replaced_and_added, x, out)
    with shared(False):
        program(x, out, config=RunConfig(num_threads=4))
    np.testing.assert_allclose(out, 2 * np.exp(np.exp(x[-4:])), rtol=1e-5)
