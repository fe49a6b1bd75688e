"""Blocks in every form: `with pl.spmd`, `for i in pl.spmd`, inline blocks, one `pl.at`, run-time counts, parallel loops, atomics."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilejit.language as pl
from tests.suite.harness import Cases, data, f32, i32

CASES = Cases()
Array = np.ndarray[Any, Any]
THREADS = (1, 2)
ROWS = pl.dynamic("ROWS")


# for i in pl.spmd ---------------------------------------------------------------------------------------------------


@CASES(f32(24, 10), expected=lambda x: np.exp(x), tol=1e-5, threads=THREADS)
@pl.jit
def loop_over_blocks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(6):
        t = pl.load(x, [i * 4, 0], [4, 10])
        out = pl.store(pl.exp(t), [i * 4, 0], out)
    return out


@CASES(f32(23, 10), more=[(f32(1, 10),), (f32(64, 10),)], compiles=1, expected=lambda x: x - x.mean(1, keepdims=True), tol=1e-5)
@pl.jit
def number_of_blocks_at_run_time(x: pl.Tensor[[ROWS, 10], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 10], pl.FP32]]):
    n = pl.tensor.dim(x, 0)
    for i in pl.spmd((n + 7) // 8):
        t = pl.load(x, [i * 8, 0], [8, 10], clamp=True)
        tmp = pl.create_tile([8, 10], dtype=pl.FP32)
        mean = pl.mul(pl.row_sum(t, tmp), 0.1)
        pl.store(pl.row_expand_sub(t, mean), [i * 8, 0], out)
    return out


@CASES(f32(3, 5, 8), expected=lambda x: x.swapaxes(0, 1).copy(), threads=THREADS)
@pl.jit
def two_dimensional_grid(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for b in pl.spmd(15):
        i = b // 5
        j = b % 5
        t = pl.load(x, [i, j, 0], [1, 1, 8])
        pl.store(t, [j, i, 0], out)
    return out


@CASES(f32(16, 12), f32(12, 20), expected=lambda a, b: a @ b, tol=1e-4, threads=THREADS)
@pl.jit
def matmul_grid_of_tiles(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    for block in pl.spmd(4 * 2):
        m = (block // 2) * 4
        n = (block % 2) * 10
        acc = pl.tile.full([4, 10], dtype=pl.FP32, value=0.0)
        for k in pl.range(0, 12, 4):
            acc = pl.matmul_acc(acc, pl.load(a, [m, k], [4, 4]), pl.load(b, [k, n], [4, 10]))
        pl.store(acc, [m, n], out)
    return out


@CASES(f32(8, 6), expected=lambda x: x * np.arange(8, dtype=np.float32)[:, None])
@pl.jit
def block_index_as_a_number(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(8, name_hint="rows"):
        f = pl.cast(i, pl.FP32)
        out[i] = pl.mul(x[i], f)
    return out


@CASES(f32(8, 6), expected=lambda x: (x * 2, x.sum(1, keepdims=True)), tol=1e-5, threads=THREADS)
@pl.jit
def blocks_with_tensor_operators(x: pl.Tensor, doubled: pl.Out[pl.Tensor], sums: pl.Out[pl.Tensor]):
    for i in pl.spmd(4):
        part = pl.slice(x, [2, 6], [i * 2, 0])
        doubled = pl.assemble(doubled, pl.add(part, part), [i * 2, 0])
        sums = pl.assemble(sums, pl.row_sum(part), [i * 2, 0])
    return doubled, sums


# with pl.spmd -----------------------------------------------------------------------------------------------------------


@pl.jit.incore
def one_block(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    row = pl.tile.get_block_idx() * 3
    t = pl.load(x, [row, 0], [3, x.shape[1]])
    out = pl.store(pl.neg(t), [row, 0], out)
    return out


@CASES(f32(15, 7), expected=np.negative, threads=THREADS)
@pl.jit
def with_block_starts_one_kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.spmd(5):
        out = one_block(x, out)
    return out


@CASES(f32(15, 7), expected=lambda x: x + 1)
@pl.jit
def with_block_written_inline(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.spmd(5):
        i = pl.tile.get_block_idx()
        t = pl.load(x, [i * 3, 0], [3, 7])
        pl.store(pl.add(t, 1.0), [i * 3, 0], out)
    return out


@CASES(f32(15, 7), expected=lambda x: x * x)
@pl.jit
def with_block_around_one_region(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.spmd(5, name_hint="squares"):  # noqa: SIM117 - one context manager per `with`
        with pl.at(level=pl.Level.CORE_GROUP):
            i = pl.tile.get_block_idx()
            t = pl.load(x, [i * 3, 0], [3, 7])
            pl.store(pl.mul(t, t), [i * 3, 0], out)
    return out


@CASES(f32(12, 7), expected=lambda x: (x * 2) + np.repeat(np.arange(4, dtype=np.float32), 3)[:, None])
@pl.jit
def task_of_blocks_orders_the_next(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    tmp = pl.create_tensor([12, 7], dtype=pl.FP32)
    with pl.spmd(4) as first:
        i = pl.tile.get_block_idx()
        t = pl.load(x, [i * 3, 0], [3, 7])
        tmp = pl.store(pl.add(t, t), [i * 3, 0], tmp)
    with pl.spmd(4, deps=[first]) as _second:
        j = pl.tile.get_block_idx()
        u = pl.load(tmp, [j * 3, 0], [3, 7])
        out = pl.store(pl.add(u, pl.cast(j, pl.FP32)), [j * 3, 0], out)
    return out


@CASES(f32(24, 7), np.array([5], np.int32), expected=lambda x, n: np.where(np.arange(24)[:, None] < 3 * n[0], x * 4, x))
@pl.jit
def core_num_from_a_tensor(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
    blocks = pl.cast(pl.read(n, [0]), pl.INDEX)
    with pl.spmd(core_num=blocks, sync_start=True, allow_early_resolve=True):
        i = pl.tile.get_block_idx()
        t = pl.load(x, [i * 3, 0], [3, 7])
        pl.store(pl.mul(t, 4.0), [i * 3, 0], out)
    return out


@CASES(f32(1, 40), expected=lambda x: x * 2)
@pl.jit
def blocks_stride_over_the_work(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.spmd(3):
        n = pl.tile.get_block_num()
        for j in pl.range(pl.tile.get_block_idx(), 10, n):
            t = pl.load(x, [0, j * 4], [1, 4])
            pl.store(pl.add(t, t), [0, j * 4], out)
    return out


@CASES(i32(1, 1), expected=lambda x: x * 0 + 8 + 16)
@pl.jit
def the_machine_is_asked(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    clusters = pl.system.available_cluster_count()
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(clusters + pl.system.available_aiv_count(), pl.INT32)
        pl.write(out, [0, 0], n)
    return out


@CASES(f32(32, 5), expected=lambda x: np.abs(x))
@pl.program
class SpmdOfAMethod:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, a: pl.Tensor[[32, 5], pl.FP32], step: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[32, 5], pl.FP32]]) -> pl.Tensor[[32, 5], pl.FP32]:
        row = pl.tile.get_block_idx() * step
        out = pl.store(pl.abs(pl.load(a, [row, 0], [8, 5])), [row, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[32, 5], pl.FP32], out: pl.Out[pl.Tensor[[32, 5], pl.FP32]]) -> pl.Tensor[[32, 5], pl.FP32]:
        with pl.spmd(pl.system.available_cluster_count() // 2) as _tid:
            out = self.kernel(a, 8, out)
        return out


@CASES(f32(6, 9), expected=lambda x: x[::-1].copy())
@pl.program
class SpmdFunction:
    """A function of type Spmd wraps the kernel of its blocks."""

    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, a: pl.Tensor[[6, 9], pl.FP32], out: pl.Out[pl.Tensor[[6, 9], pl.FP32]]) -> pl.Tensor[[6, 9], pl.FP32]:
        i = pl.tile.get_block_idx()
        out = pl.store(pl.load(a, [5 - i, 0], [1, 9]), [i, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[6, 9], pl.FP32], out: pl.Out[pl.Tensor[[6, 9], pl.FP32]]) -> pl.Tensor[[6, 9], pl.FP32]:
        with pl.spmd(6):
            out = self.kernel(a, out)
        return out


# parallel loops ---------------------------------------------------------------------------------------------------------


@CASES(f32(20, 11), expected=lambda x: np.sqrt(np.abs(x)), tol=1e-6, threads=THREADS)
@pl.jit
def parallel_regions(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.parallel(5):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [i * 4, 0], [4, 11])
            out = pl.store(pl.sqrt(pl.abs(t)), [i * 4, 0], out)
    return out


@CASES(f32(20, 11), expected=lambda x: np.flipud(x).copy(), threads=THREADS)
@pl.jit
def parallel_with_start_and_step(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.parallel(0, 20, 2):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(x, [i, 0], [1, 11]), [19 - i, 0], out)
            pl.store(pl.load(x, [i + 1, 0], [1, 11]), [18 - i, 0], out)
    return out


@CASES(f32(4, 6, 9), expected=lambda x: x.max(2, keepdims=True), threads=THREADS)
@pl.jit
def parallel_nest(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.parallel(4):
        for j in pl.parallel(3):
            with pl.at(level=pl.Level.CORE_GROUP):
                t = pl.reshape(pl.load(x, [i, j * 2, 0], [1, 2, 9]), [2, 9])
                tmp = pl.create_tile([2, 9], dtype=pl.FP32)
                pl.store(pl.reshape(pl.row_max(t, tmp), [1, 2, 1]), [i, j * 2, 0], out)
    return out


@CASES(f32(8, 10), expected=lambda x: np.cumsum(x, 1), tol=1e-5, threads=THREADS)
@pl.jit
def parallel_inside_a_region(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(8):
            total = 0.0
            for j in pl.range(10):
                total = total + pl.read(x, [i, j])
                pl.write(out, [i, j], total)
    return out


@CASES(f32(9, 7), f32(9, 7), expected=lambda a, b: (a + b) * b, threads=THREADS)
@pl.jit
def parallel_calls_of_a_helper(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.parallel(3):
        row_block(a, b, i * 3, out)
    return out


@pl.jit.incore
def row_block(a: pl.Tensor, b: pl.Tensor, row: pl.INDEX, out: pl.Out[pl.Tensor]):
    tb = pl.load(b, [row, 0], [3, b.shape[1]])
    ta = pl.load(a, [row, 0], [3, a.shape[1]])
    pl.store(pl.mul(pl.add(ta, tb), tb), [row, 0], out)


# atomics ------------------------------------------------------------------------------------------------------------


@CASES(f32(9, 64), f32(64, 11), f32(9, 11), expected=lambda a, b, c: c + a @ b, tol=1e-4, threads=THREADS)
@pl.jit
def split_k_stores_atomically(a: pl.Tensor, b: pl.Tensor, c: pl.InOut[pl.Tensor]):
    for s in pl.spmd(8):
        ta = pl.load(a, [0, s * 8], [9, 8])
        tb = pl.load(b, [s * 8, 0], [8, 11])
        c = pl.store(pl.matmul(ta, tb), [0, 0], c, atomic=pl.AtomicType.Add)
    return c


@CASES(f32(9, 64), f32(64, 11), expected=lambda a, b: a @ b, tol=1e-4, threads=THREADS, returned=True)
@pl.jit
def split_k_into_a_zeroed_output(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor[[9, 11], pl.FP32]]):
    for s in pl.spmd(4):
        part = pl.matmul(pl.slice(a, [9, 16], [0, s * 16]), pl.slice(b, [16, 11], [s * 16, 0]))
        c = pl.assemble(c, part, [0, 0], atomic=pl.AtomicType.Add)
    return c


@CASES(i32(40, 3, low=0, high=5), expected=lambda x: np.bincount(x.ravel(), minlength=5).astype(np.int32)[None], threads=THREADS)
@pl.jit
def histogram_with_integer_atomics(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.full([1, 5], dtype=pl.INT32, value=0)
    one = pl.create_tensor([1, 1], dtype=pl.INT32, init_value=1)
    for i in pl.spmd(40):
        for j in pl.range(3):
            bin_ = pl.cast(pl.read(x, [i, j]), pl.INDEX)
            pl.store(pl.load(one, [0, 0], [1, 1]), [0, bin_], out, atomic=pl.AtomicType.Add)
    return out


@CASES(f32(30, 9), expected=lambda x: x.sum(0, keepdims=True), tol=1e-4, threads=THREADS, returned=True)
@pl.jit
def columns_summed_by_parallel_turns(x: pl.Tensor, out: pl.Out[pl.Tensor[[1, 9], pl.FP32]]):
    for i in pl.parallel(10):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [i * 3, 0], [3, 9])
            out = pl.store(pl.col_sum(t), [0, 0], out, atomic=pl.AtomicType.Add)
    return out


@CASES(data(np.int32, 6, 8, low=-9, high=9), expected=lambda x: np.cumsum(x, 0).astype(np.int32))
@pl.jit
def blocks_after_blocks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """A prefix sum by doubling: every round starts blocks that read the round before."""
    cur = pl.create_tensor([6, 8], dtype=pl.INT32)
    nxt = pl.create_tensor([6, 8], dtype=pl.INT32)
    with pl.at(level=pl.Level.CORE_GROUP):
        cur[:] = x
    step = 1
    while step < 6:
        for i in pl.spmd(6):
            t = pl.load(cur, [i, 0], [1, 8])
            if i >= step:
                t = pl.add(t, pl.load(cur, [i - step, 0], [1, 8]))
            pl.store(t, [i, 0], nxt)
        cur, nxt = nxt, cur
        step = step * 2
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.load(cur, [0, 0], [6, 8]), [0, 0], out)
    return out
