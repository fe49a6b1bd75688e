"""Forms of public programs, several to a kernel: older options, products and copies that name their result, barriers, ranges, extents, prefetches, task ids."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from numpy import float32

import tilejit.language as pl
from tests.suite.harness import Cases, data, f16, f32, i32

CASES = Cases()
M = pl.dynamic("M")
N = pl.dynamic("N")


# options of earlier versions ------------------------------------------------------------------------------------------


@CASES(f32(8, 8), f32(8, 8), expected=lambda x, y: (x @ y + x, x + x, x - y, x * y), tol=1e-4)
@pl.jit
def regions_with_older_options(
    x: pl.Tensor, y: pl.Tensor, a: pl.Out[pl.Tensor[[8, 8], pl.FP32]], b: pl.Out[pl.Tensor[[8, 8], pl.FP32]],
    c: pl.Out[pl.Tensor[[8, 8], pl.FP32]], e: pl.Out[pl.Tensor[[8, 8], pl.FP32]],
):  # fmt: skip
    with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.NONE, slot_num=2)]):
        a[:] = pl.matmul(x, y) + x
    with pl.at(level=pl.Level.CORE_GROUP, split=pl.SplitMode.UP_DOWN, slot_num=4):  # pyright: ignore[reportCallIssue]
        b[:] = x + x
    with pl.at(level=pl.Level.CORE_GROUP, optimization=pl.split(pl.SplitMode.UP_DOWN)):  # pyright: ignore[reportCallIssue]
        c[:] = x - y
    for block in pl.spmd(2, optimizations=[pl.split(pl.SplitMode.LEFT_RIGHT, slot_num=2)]):
        pl.store(pl.mul(pl.load(x, [block * 4, 0], [4, 8]), pl.load(y, [block * 4, 0], [4, 8])), [block * 4, 0], e)
    return a, b, c, e


@CASES(f32(8, 8), expected=lambda x: (x + x, x * float32(3)))
@pl.jit
def loops_with_older_options(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    for i in pl.parallel(0, 8, 4, chunk=2, chunk_policy="leading_full"):  # pyright: ignore[reportCallIssue]
        with pl.incore():
            a[i : i + 4, :] = x[i : i + 4, :] + x[i : i + 4, :]
    with pl.spmd(2, split=pl.SplitMode.UP_DOWN):  # pyright: ignore[reportCallIssue]
        block = pl.tile.get_block_idx()
        for i in pl.range(0, 4, chunk=4):  # pyright: ignore[reportCallIssue]
            row = block * 4 + i
            pl.store(pl.mul(pl.load(x, [row, 0], [1, 8]), 3.0), [row, 0], b)
    return a, b


# products of tiles that name their result -----------------------------------------------------------------------------


def _products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(float32) @ b.astype(float32)


@CASES(
    data(ml_dtypes.bfloat16, 8, 16), data(ml_dtypes.bfloat16, 16, 24), f16(8, 32), f16(32, 24),
    expected=lambda a, b, c, e: (_products(a, b), _products(c, e)), tol=1e-4,
)  # fmt: skip
@pl.jit
def products_in_their_spaces_and_before_an_accumulation(
    a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, e: pl.Tensor, x: pl.Out[pl.Tensor[[8, 24], pl.FP32]], y: pl.Out[pl.Tensor[[8, 24], pl.FP32]]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        left, right = (pl.load(t, [0, 0], shape, target_memory=pl.Mem.Mat) for t, shape in ((a, [8, 16]), (b, [16, 24])))
        pl.store(pl.matmul(pl.move(left, pl.Mem.Left), pl.move(right, pl.Mem.Right), out_dtype=pl.FP32), [0, 0], x)
        acc = pl.tile.matmul(pl.load(c, [0, 0], [8, 16]), pl.load(e, [0, 0], [16, 24]), pl.FP32)
        acc = pl.matmul_acc(acc, pl.load(c, [0, 16], [8, 16]), pl.load(e, [16, 0], [16, 24]))
        pl.store(acc, [0, 0], y)
    return x, y


@CASES(
    f32(8, 16), f32(24, 16), data(np.int8, 4, 16), data(np.int8, 16, 8),
    expected=lambda a, b, c, e: (a @ b.T, c.astype(np.int32) @ e.astype(np.int32)), tol=1e-4,
)  # fmt: skip
@pl.jit
def products_of_turned_tiles_and_in_a_first_round(
    a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, e: pl.Tensor, x: pl.Out[pl.Tensor[[8, 24], pl.FP32]], y: pl.Out[pl.Tensor[[4, 8], pl.INT32]]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.matmul(pl.load(a, [0, 0], [8, 16]), pl.transpose(pl.load(b, [0, 0], [24, 16]), 0, 1), out_dtype=pl.FP32), [0, 0], x)
        acc = pl.create_tile([4, 8], dtype=pl.INT32, target_memory=pl.Mem.Acc)
        for k in pl.range(2):
            left, right = pl.load(c, [0, k * 8], [4, 8]), pl.load(e, [k * 8, 0], [8, 8])
            if k == 0:
                acc = pl.matmul(left, right, out_dtype=pl.INT32)
            else:
                acc = pl.matmul_acc(acc, left, right)
        pl.store(acc, [0, 0], y)
    return x, y


# barriers -------------------------------------------------------------------------------------------------------------


@CASES(i32(4, 8), expected=lambda x: np.roll(x, -3, 0), threads=(1, 2))
@pl.jit
def barriers_of_every_kind_of_core(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    workspace = pl.create_tensor([64], pl.INT32, init_value=0)
    one, two, three = (pl.create_tensor([4, 8], pl.INT32) for _ in range(3))
    for b in pl.spmd(4, sync_start=True):
        one = pl.store(pl.load(x, [b, 0], [1, 8]), [b, 0], one)
        pl.system.syncall(core_type="aic_only")
        two = pl.store(pl.load(one, [(b + 1) % 4, 0], [1, 8]), [b, 0], two)
        pl.system.syncall(core_type="mix", mode="soft", gm_workspace=workspace, used_cores=12)
        three = pl.store(pl.load(two, [(b + 1) % 4, 0], [1, 8]), [b, 0], three)
        pl.system.syncall(core_type="aiv_only", mode="soft", gm_workspace=workspace, used_cores=4)
        pl.store(pl.load(three, [(b + 1) % 4, 0], [1, 8]), [b, 0], out)
    return out


@CASES(i32(4, 8), expected=lambda x: x.cumsum(0, dtype=np.int32), threads=(1, 2))
@pl.jit
def a_barrier_in_a_loop(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.spmd(4, sync_start=True):
        b = pl.tile.get_block_idx()
        pl.store(pl.load(x, [b, 0], [1, 8]), [b, 0], out)
        for i in pl.range(3):
            pl.system.syncall(core_type="aiv_only")
            if b == i + 1:
                pl.store(pl.add(pl.load(out, [i, 0], [1, 8]), pl.load(out, [b, 0], [1, 8])), [b, 0], out)
    return out


@CASES(i32(7, 5, low=-9, high=9), expected=lambda x: np.cumsum(x, 0).astype(np.int32), threads=(1, 2))
@pl.jit
def barriers_around_what_a_while_carries(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    shared = pl.create_tensor([7, 5], dtype=pl.INT32)
    for b in pl.spmd(7, sync_start=True):
        t = pl.load(x, [b, 0], [1, 5])
        step = pl.const(1, pl.INDEX)
        while step < 7:
            if step > 0:  # of all blocks alike
                shared = pl.store(t, [b, 0], shared)
                pl.system.syncall()
                if b >= step:
                    t = pl.add(t, pl.load(shared, [b - step, 0], [1, 5]))
            pl.system.syncall()
            step = step * 2
        pl.store(t, [b, 0], out)
    return out


# ranges, extents ------------------------------------------------------------------------------------------------------


@CASES(
    data(np.uint32, 1, low=0, high=9),
    expected=lambda n: (
        np.arange(16, dtype=np.uint32)[None] + n[0], (np.arange(16) + 2**32 - 8).astype(np.uint32)[None],
        (np.arange(16, dtype=np.uint16) * np.uint16(2))[None], np.arange(7, dtype=np.uint32)[None],
    ),
)  # fmt: skip
@pl.jit
def unsigned_ranges_from_anywhere(
    n: pl.Tensor, a: pl.Out[pl.Tensor[[1, 16], pl.UINT32]], b: pl.Out[pl.Tensor[[1, 16], pl.UINT32]],
    c: pl.Out[pl.Tensor[[1, 16], pl.UINT16]], e: pl.Out[pl.Tensor[[1, 7], pl.UINT32]],
):  # fmt: skip
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.tile.ci(n[0], [1, 16], dtype=pl.UINT32), [0, 0], a)
        pl.store(pl.tile.ci(4294967288, [1, 16], dtype=pl.UINT32), [0, 0], b)
        pl.store(pl.mul(pl.tile.ci(0, [1, 16], dtype=pl.UINT16), 2), [0, 0], c)
        e[:] = pl.tensor.ci(0, [1, 7], dtype=pl.UINT32)
    return a, b, c, e


@CASES(f32(8, 8), f32(3, 8), expected=lambda x, y: (x * float32(len(x) + len(y)), x + x), more=[(f32(4, 8), f32(9, 8))], compiles=1)
@pl.jit
def extents_as_bounds_of_loops_and_blocks(
    x: pl.Tensor[[M, 8], pl.FP32], y: pl.Tensor[[N, 8], pl.FP32], a: pl.Out[pl.Tensor[[M, 8], pl.FP32]], b: pl.Out[pl.Tensor[[M, 8], pl.FP32]]
):
    m: pl.Scalar[pl.INT64] = pl.tensor.dim(x, 0)
    n: pl.Scalar[pl.INT64] = pl.tensor.dim(y, -2)
    for i in pl.parallel(0, m, 4):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.mul(pl.load(x, [i, 0], [4, 8]), pl.cast(m + n, pl.FP32)), [i, 0], a)
    for block in pl.spmd(m):
        t = pl.load(x, [block, 0], [1, 8])
        pl.store(pl.add(t, t), [block, 0], b)
    return a, b


@pl.program
class ExtentsAsArguments:
    @pl.function(type=pl.FunctionType.InCore)
    def rows(self, a: pl.Tensor[[M, 8], pl.FP32], n: pl.Scalar[pl.INT64], out: pl.Out[pl.Tensor[[M * 2, 8], pl.FP32]]) -> pl.Tensor[[M * 2, 8], pl.FP32]:
        for i in pl.range(n):
            t = pl.load(a, [i, 0], [1, 8])
            out = pl.store(t, [i, 0], out)
            out = pl.store(pl.neg(t), [n + i, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[M, 8], pl.FP32], out: pl.Out[pl.Tensor[[M * 2, 8], pl.FP32]]) -> pl.Tensor[[M * 2, 8], pl.FP32]:
        m: pl.Scalar[pl.INT64] = pl.tensor.dim(a, 0)
        out = self.rows(a, m, out)
        return out


CASES(f32(5, 8), expected=lambda x: np.concatenate([x, -x]), more=[(f32(2, 8),)])(ExtentsAsArguments)


@CASES(
    f32(3, 8), f32(6, 8), f32(8, 3), expected=lambda x, y, z: (x.T.reshape(-1) + z.reshape(-1), y[0::2] + y[1::2]),
    more=[(f32(5, 8), f32(10, 8), f32(8, 5))], compiles=1,
)  # fmt: skip
@pl.jit
def extents_of_inputs_that_annotations_compute(
    x: pl.Tensor[[M, 8], pl.FP32], y: pl.Tensor[[2 * M, 8], pl.FP32], z: pl.Tensor[[8, M], pl.FP32],
    a: pl.Out[pl.Tensor[[8 * M], pl.FP32]], b: pl.Out[pl.Tensor[[M, 8], pl.FP32]],
):  # fmt: skip
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.reshape(pl.transpose(x, 0, 1), [8 * M]) + pl.reshape(z, [8 * M])
        for i in pl.range(M):
            b[i : i + 1] = y[2 * i : 2 * i + 1] + y[2 * i + 1 : 2 * i + 2]
    return a, b


# prefetches, task ids -------------------------------------------------------------------------------------------------


@CASES(f32(6, 8), f16(2, 6, 8), expected=lambda x, y: (x + float32(1), y[1] * np.float16(2)), more=[(f32(3, 8), f16(2, 3, 8))], compiles=1)
@pl.jit
def parts_are_prefetched(
    x: pl.Tensor[[M, 8], pl.FP32], y: pl.Tensor[[2, M, 8], pl.FP16], a: pl.Out[pl.Tensor[[M, 8], pl.FP32]], b: pl.Out[pl.Tensor[[M, 8], pl.FP16]]
):
    for block in pl.spmd(M):
        context = pl.prefetch.make_context()
        row = pl.prefetch.async_prefetch(x[block : block + 1, :], context)
        plane = pl.prefetch.async_prefetch(y[1], context)
        pl.prefetch.wait(row, pl.prefetch.session(context))
        pl.store(pl.add(pl.load(x, [block, 0], [1, 8]), 1.0), [block, 0], a)
        pl.prefetch.wait(plane, pl.prefetch.session(context))
        pl.store(pl.mul(pl.load(y[1], [block, 0], [1, 8]), 2.0), [block, 0], b)
    return a, b


@pl.jit.incore
def added(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    out = pl.store(pl.add(pl.load(out, [0, 0], [3, 8]), pl.load(x, [0, 0], [3, 8])), [0, 0], out)
    return out


@CASES(i32(3, 8), i32(3, 8), i32(1, low=0, high=4), expected=lambda x, out, n: out + 4 * x)
@pl.jit
def task_ids_at_places_of_the_run(x: pl.Tensor, out: pl.InOut[pl.Tensor], n: pl.Tensor):
    place = pl.cast(pl.read(n, [0]), pl.INDEX)
    ids = pl.array.create(4, pl.TASK_ID)
    ids = pl.array.update_element(ids, 3, pl.system.task_invalid())
    out, first = pl.submit(added, x, out, deps=[ids[3]])
    ids = pl.array.update_element(ids, place, first)
    out, second = pl.submit(added, x, out, deps=[pl.array.get_element(ids, place)])
    if pl.read(n, [0]) > 1:
        ids = pl.array.update_element(ids, 0, second)
    else:
        ids[1] = second
    with pl.at(level=pl.Level.CORE_GROUP, deps=[ids[0], ids[1]]) as third:
        out[:] = out + x
    ids = pl.array.update_element(ids, 2, third)
    with pl.at(level=pl.Level.CORE_GROUP, deps=[ids[i] for i in range(3)]):
        out[:] = out + x
    return out


# columns of accumulators ----------------------------------------------------------------------------------------------


def _right_half_twice(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a @ b * np.where(np.arange(24) < 12, float32(1), float32(2))


@CASES(f32(8, 16), f32(16, 24), f32(1, 16), expected=lambda a, b, c: (_right_half_twice(a, b), _right_half_twice(c, b)), tol=1e-4)
@pl.jit
def added_to_columns_of_accumulators(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, x: pl.Out[pl.Tensor[[8, 24], pl.FP32]], y: pl.Out[pl.Tensor[[1, 24], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        left, row, right = pl.load(a, [0, 0], [8, 16]), pl.load(c, [0, 0], [1, 16]), pl.load(b, [0, 12], [16, 12])
        acc, one = pl.matmul(left, pl.load(b, [0, 0], [16, 24])), pl.gemv(row, pl.load(b, [0, 0], [16, 24]))
        pl.matmul_acc(acc[:, 12:24], left, right)
        pl.gemv_acc(one[:, 12:24], row, right)
        pl.store(acc, [0, 0], x)
        pl.store(one, [0, 0], y)
    return x, y
