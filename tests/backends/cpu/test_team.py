"""Blocks, parallel loops and independent launches on several threads: the bits and the errors of one thread, whatever the number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tilejit.language as pl
from tests.backends.cpu.pool import shared
from tilejit import RunConfig, ir
from tilejit.runtime.artifact.compiled import CompiledProgram

NDArray = npt.NDArray[Any]
COUNTS = (1, 2, 3, 8)


@pl.jit
def blocks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(40):
        rows = pl.load(x, [i * 8, 0], [8, 200])
        scaled = pl.mul(pl.exp(rows), 0.5)
        out = pl.store(pl.add(scaled, pl.cast(pl.tile.get_block_num() * 100 + pl.tile.get_block_idx(), pl.FP32)), [i * 8, 0], out)
    return out


@pl.jit
def parallel_regions(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.parallel(0, 320, 8):
        half = pl.create_tensor([8, 200], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP):
            half = pl.store(pl.mul(pl.load(x, [i, 0], [8, 200]), 0.5), [0, 0], half)
        with pl.at(level=pl.Level.CORE_GROUP):
            rows = pl.load(half, [0, 0], [8, 200])
            out = pl.store(pl.row_expand_sub(rows, pl.row_max(rows, pl.create_tile([8, 200], dtype=pl.FP32))), [i, 0], out)
    return out


@pl.jit
def parallel_in_a_region(x: pl.Tensor, trips: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        first = pl.load(x, [0, 0], [1, 200])
        for i in pl.parallel(pl.read(trips, [0])):
            rows = pl.load(x, [i * 8, 0], [8, 200])
            out = pl.store(pl.exp(pl.col_expand_mul(rows, first)), [i * 8, 0], out)
    return out


@pl.jit
def nested(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.parallel(10):
        with pl.at(level=pl.Level.CORE_GROUP):
            for j in pl.parallel(3, -1, -1):
                row = i * 32 + j * 8
                out = pl.store(pl.sqrt(pl.abs(pl.load(x, [row, 0], [8, 200]))), [row, 0], out)
    return out


@pl.jit
def blocked_product(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(20):
        acc = pl.create_tile([16, 200], dtype=pl.FP32)
        for k in pl.range(0, 320, 32):
            left = pl.load(x, [i * 16, (k // 32) * 16], [16, 32])
            right = pl.load(x, [k, 0], [32, 200])
            if k == 0:
                acc = pl.matmul(left, right)
            else:
                acc = pl.matmul_acc(acc, left, right)
        out = pl.store(acc, [i * 16, 0], out)
    return out


@pl.jit
def side_by_side(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    a = pl.create_tensor([320, 200], dtype=pl.FP32)
    b = pl.create_tensor([320, 200], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(40):
            a = pl.store(pl.exp(pl.load(x, [i * 8, 0], [8, 200])), [i * 8, 0], a)
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(40):
            b = pl.store(pl.tanh(pl.load(x, [i * 8, 0], [8, 200])), [i * 8, 0], b)
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(40):
            out = pl.store(pl.add(pl.load(a, [i * 8, 0], [8, 200]), pl.load(b, [i * 8, 0], [8, 200])), [i * 8, 0], out)
    return out


@pl.jit
def halves(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    upper, lower = pl.slice(out, [160, 200], [0, 0]), pl.slice(out, [160, 200], [160, 0])
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(20):
            upper = pl.store(pl.exp(pl.load(x, [i * 8, 0], [8, 200])), [i * 8, 0], upper)
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(20):
            lower = pl.store(pl.exp(pl.load(x, [160 + i * 8, 0], [8, 200])), [i * 8, 0], lower)
    return out


@pl.program
class Launched:
    @pl.function(type=pl.FunctionType.InCore)
    def halve(self, x: pl.Tensor[[320, 200], pl.FP32], out: pl.Out[pl.Tensor[[320, 200], pl.FP32]]) -> pl.Tensor[[320, 200], pl.FP32]:
        row = pl.tile.get_block_idx() * (320 // pl.tile.get_block_num())
        out = pl.store(pl.sin(pl.load(x, [row, 0], [16, 200])), [row, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[320, 200], pl.FP32], out: pl.Out[pl.Tensor[[320, 200], pl.FP32]]) -> pl.Tensor[[320, 200], pl.FP32]:
        with pl.spmd(20):
            out = self.halve(x, out)
        return out


def data(seed: int, *shape: int) -> NDArray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def compiled(kernel: Any, *arguments: object) -> CompiledProgram:
    """The program of a kernel for arguments like these."""
    kernel(*arguments)
    return list(kernel._cache.values())[-1]


JITTED: list[tuple[Any, tuple[object, ...], Callable[[NDArray], NDArray] | None]] = [
    (blocks, (), lambda x: np.exp(x) * 0.5 + (4000 + np.repeat(np.arange(40), 8))[:, None]),
    (parallel_regions, (), lambda x: x / 2 - (x / 2).max(1, keepdims=True)),
    (parallel_in_a_region, (np.array([40], np.int32),), lambda x: np.exp(x * x[0])),
    (nested, (), lambda x: np.sqrt(np.abs(x))),
    (blocked_product, (), None),
    (side_by_side, (), lambda x: np.exp(x) + np.tanh(x)),
    (halves, (), np.exp),
]


@pytest.mark.parametrize(("kernel", "others", "formula"), JITTED, ids=lambda item: getattr(item, "__name__", ""))
def test_any_number_of_threads_gives_the_bits_of_one(kernel: Any, others: tuple[object, ...], formula: Callable[[NDArray], NDArray] | None) -> None:
    x = data(1, 320, 200)
    program = compiled(kernel, x, *others, np.empty_like(x))
    results: list[NDArray] = []
    for count in COUNTS:
        out = np.full_like(x, np.nan)
        with shared(count > 1):
            program(x, *others, out, config=RunConfig(num_threads=count))
        results.append(out)
    for out in results[1:]:
        np.testing.assert_array_equal(out, results[0])
    if formula is not None:
        np.testing.assert_allclose(results[0], formula(x), rtol=1e-5, atol=1e-5)


def test_blocks_of_a_program_know_who_they_are_on_every_thread() -> None:
    x = data(2, 320, 200)
    program = ir.compile(Launched)
    for count in COUNTS:
        out = np.full_like(x, np.nan)
        with shared(count > 1):
            program(x, out, config=RunConfig(num_threads=count))
        np.testing.assert_allclose(out, np.sin(x), rtol=1e-5, atol=1e-6)


@pl.jit
def tiny(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(4):
        out = pl.store(pl.mul(pl.load(x, [i * 4, 0], [4, 16]), 2.0), [i * 4, 0], out)
    return out


def test_work_of_a_few_microseconds_stays_on_one_thread() -> None:
    x = data(3, 16, 16)
    program = compiled(tiny, x, np.empty_like(x))
    out = np.empty_like(x)
    with shared(False):
        program(x, out, config=RunConfig(num_threads=8))
    np.testing.assert_array_equal(out, x * 2)


# operators --------------------------------------------------------------------------------------------------------------


@pl.jit
def soft_rows(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        out[:] = pl.row_expand_div(e, pl.row_sum(e))
    return out


@pl.jit
def every_cell(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.tanh(x) * pl.rsqrt(x * x + 1.0) + pl.sin(x)
    return out


@pl.jit
def kept_between(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(x)
        total = pl.col_sum(e)
        out[:] = pl.col_expand_mul(pl.log(e), total)
    return out


@pl.jit
def folded_rows(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        biased = pl.exp(x) * 0.01
        out[0:1, :] = pl.col_sum(biased)
        out[1:2, :] = pl.col_max(pl.sin(x))
    return out


SHAPES = ((300, 400), (1, 100_003), (1000, 101), (3, 50_000))
WHOLE = [(kernel, shape) for kernel in (soft_rows, every_cell, kept_between, folded_rows) for shape in SHAPES if kernel is not folded_rows or shape[0] > 1]


@pytest.mark.parametrize(("kernel", "shape"), WHOLE, ids=lambda item: getattr(item, "__name__", str(item)))
def test_operators_on_whole_tensors_give_the_bits_of_one_thread(kernel: Any, shape: tuple[int, int]) -> None:
    x = data(12, *shape)
    program = compiled(kernel, x, np.empty_like(x))
    alone = np.zeros_like(x)
    program(x, alone, config=RunConfig(num_threads=1))
    for count in (2, 3, 8):
        out = np.zeros_like(x)
        with shared(kernel is not soft_rows or shape[0] > 1):
            program(x, out, config=RunConfig(num_threads=count))
        np.testing.assert_array_equal(out, alone)


@pl.jit
def middle_of_one(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.prod(x, axis=1)
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("deep", [1, 3])
def test_reductions_of_a_middle_dim_give_the_bits_of_one_thread(deep: int, dtype: Any) -> None:
    """Where it has one row, the rows of the nest are those of the result."""
    x = data(13, 500, deep, 257).astype(dtype)
    for count in COUNTS:
        out = np.zeros((500, 257), dtype)
        middle_of_one(x, out, config=RunConfig(num_threads=count))
        np.testing.assert_array_equal(out, x[:, 0] if deep == 1 else np.prod(x.astype(np.float32), axis=1).astype(dtype))


def test_tensors_of_dynamic_extents_are_shared_out_when_they_are_large() -> None:
    rows = pl.dynamic("rows")

    @pl.jit
    def dynamic_rows(x: pl.Tensor[[rows, 200], pl.FP32], out: pl.Out[pl.Tensor[[rows, 200], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.row_expand_mul(pl.exp(x), pl.row_max(x))
        return out

    for size in (4, 2000):
        x = data(13, size, 200)
        results: list[NDArray] = []
        for count in COUNTS:
            out = np.full_like(x, np.nan)
            with shared(count > 1 and size > 1000):
                dynamic_rows(x, out, config=RunConfig(num_threads=count))
            results.append(out)
        for out in results[1:]:
            np.testing.assert_array_equal(out, results[0])


@pl.jit
def product(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b)
    return c


@pl.jit
def turned_product(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b, b_trans=True)
    return c


@pl.jit
def added_product(a: pl.Tensor, b: pl.Tensor, c: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.add(c, pl.matmul(a, b))
    return c


PRODUCTS = [
    ((131, 1030, 300), np.float32),
    ((700, 100, 300), np.float16),
    ((2001, 70, 200), np.float32),
    ((40, 777, 513), np.float16),
    ((3, 2100, 700), np.float32),
    ((1, 3000, 500), np.float16),
]


@pytest.mark.parametrize(("sizes", "dtype"), PRODUCTS, ids=str)
@pytest.mark.parametrize("kernel", [product, turned_product, added_product], ids=lambda kernel: kernel.__name__)
def test_matrix_products_give_the_bits_of_one_thread(kernel: Any, dtype: Any, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b = data(14, m, k).astype(dtype), data(15, *((n, k) if kernel is turned_product else (k, n))).astype(dtype)
    program = compiled(kernel, a, b, np.empty((m, n), dtype))
    results: list[NDArray] = []
    for count in COUNTS:
        out = np.ones((m, n), dtype)
        with shared(count > 1):
            program(a, b, out, config=RunConfig(num_threads=count))
        results.append(out)
    for out in results[1:]:
        np.testing.assert_array_equal(out, results[0])
    want = a.astype(np.float64) @ (b.T if kernel is turned_product else b).astype(np.float64) + (kernel is added_product)
    np.testing.assert_allclose(results[0].astype(np.float64), want, rtol=2e-2 if dtype is np.float16 else 1e-4, atol=0.1 if dtype is np.float16 else 1e-3)


def test_products_of_a_batch_and_of_dynamic_extents_give_the_bits_of_one_thread() -> None:
    rows = pl.dynamic("rows")

    @pl.jit
    def batched(a: pl.Tensor[[6, rows, 150], pl.FP32], b: pl.Tensor[[6, 150, 330], pl.FP32], c: pl.Out[pl.Tensor[[6, rows, 330], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            c[:] = pl.matmul(a, b)
        return c

    for size in (1, 7, 60, 333):
        a, b = data(16, 6, size, 150), data(17, 6, 150, 330)
        results: list[NDArray] = []
        for count in COUNTS:
            out = np.full((6, size, 330), np.nan, np.float32)
            batched(a, b, out, config=RunConfig(num_threads=count))
            results.append(out)
        for out in results[1:]:
            np.testing.assert_array_equal(out, results[0])
        np.testing.assert_allclose(results[0], a.astype(np.float64) @ b.astype(np.float64), rtol=1e-3, atol=1e-3)


@pl.jit
def mean_of_both(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = (x + y) * 0.5
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_long_row_may_begin_anywhere(dtype: Any) -> None:
    """Vectors start where the output begins a cache line; what lies around it stays, and an input may be the output."""
    room = 1 << 16
    for length in (1037, 40_000):
        for first, second, third in ((0, 0, 0), (1, 1, 1), (3, 8, 5), (15, 2, 16)):
            x, y = data(30, room).astype(dtype)[first : first + length], data(31, room).astype(dtype)[second : second + length]
            around = np.full(room, 7, dtype)
            out = around[third : third + length]
            mean_of_both(x, y, out, config=RunConfig(num_threads=3))
            np.testing.assert_array_equal(out, (x + y) * dtype(0.5))
            assert (around[:third] == 7).all() and (around[third + length :] == 7).all()
            want = (x + y) * dtype(0.5)
            mean_of_both(x, y, x)
            np.testing.assert_array_equal(x, want)
