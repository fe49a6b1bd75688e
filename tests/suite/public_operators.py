"""Forms of public programs about operators: result types of products, spread copies, barriers of one kind of core, ranges, extents, task ids."""

from __future__ import annotations

import numpy as np
from numpy import float32

import tilejit.language as pl
from tests.suite.harness import Cases, data, f16, f32, i32

CASES = Cases()
M = pl.dynamic("M")


# products of tiles that name their result -----------------------------------------------------------------------------


@CASES(f16(8, 16), f16(16, 24), expected=lambda a, b: a.astype(float32) @ b.astype(float32), tol=1e-5)
@pl.jit
def a_product_of_tiles_names_its_dtype(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor[[8, 24], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        left = pl.load(a, [0, 0], [8, 16])
        right = pl.load(b, [0, 0], [16, 24])
        pl.store(pl.matmul(left, right, out_dtype=pl.FP32), [0, 0], out)
    return out


@CASES(data(np.int8, 8, 16), data(np.int8, 16, 24), expected=lambda a, b: a.astype(np.int32) @ b.astype(np.int32))
@pl.jit
def a_product_of_small_integers_names_its_dtype(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor[[8, 24], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        left = pl.load(a, [0, 0], [8, 16])
        right = pl.load(b, [0, 0], [16, 24])
        pl.store(pl.tile.matmul(left, right, out_dtype=pl.INT32), [0, 0], out)
    return out


# a spread copy writes its target --------------------------------------------------------------------------------------


@CASES(f32(1, 8), expected=lambda x: np.broadcast_to(x, (5, 8)))
@pl.jit
def a_copy_spread_over_an_output(x: pl.Tensor, out: pl.Out[pl.Tensor[[5, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.expand_clone(x, out)
    return out


@CASES(f32(3, 1, 8), f16(3, 5, 8), expected=lambda x, state: np.broadcast_to(x, (3, 5, 8)).astype(np.float16) * np.float16(2))
@pl.jit
def a_copy_spread_over_a_state(x: pl.Tensor, state: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        state = pl.expand_clone(x, state)
        state[:] = state + state
    return state


@CASES(f32(1, 8), f32(9, 8), expected=lambda x, out: np.concatenate([out[:2], np.broadcast_to(x, (4, 8)), out[6:]]))
@pl.jit
def a_copy_spread_over_a_window(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.expand_clone(x, out[2:6])


@CASES(f32(1, 8), f32(5, 8), expected=lambda x, like: np.broadcast_to(x, (5, 8)) + like)
@pl.jit
def a_target_that_only_lends_its_shape(x: pl.Tensor, like: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        middle = pl.create_tensor([5, 8], pl.FP32)
        pl.expand_clone(x, middle)
        spread = pl.expand_clone(like[0:1], middle)
        out[:] = middle + like + (spread - spread)
    return out


# barriers -------------------------------------------------------------------------------------------------------------


@CASES(i32(4, 8), expected=lambda x: np.roll(x, -1, 0), threads=(1, 2))
@pl.jit
def a_barrier_of_vector_cores(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    shared = pl.create_tensor([4, 8], pl.INT32)
    for b in pl.spmd(4, sync_start=True):
        shared = pl.store(pl.load(x, [b, 0], [1, 8]), [b, 0], shared)
        pl.system.syncall(core_type="aiv_only")
        pl.store(pl.load(shared, [(b + 1) % 4, 0], [1, 8]), [b, 0], out)
    return out


@CASES(i32(4, 8), expected=lambda x: np.roll(x, -1, 0), threads=(1, 2))
@pl.jit
def a_soft_barrier_of_cube_cores(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    workspace = pl.create_tensor([64], pl.INT32, init_value=0)
    shared = pl.create_tensor([4, 8], pl.INT32)
    for b in pl.spmd(4, sync_start=True):
        shared = pl.store(pl.load(x, [b, 0], [1, 8]), [b, 0], shared)
        pl.system.syncall(core_type="aic_only", mode="soft", gm_workspace=workspace, used_cores=4)
        pl.store(pl.load(shared, [(b + 1) % 4, 0], [1, 8]), [b, 0], out)
    return out


@CASES(i32(4, 8), expected=lambda x: np.roll(x, -1, 0), threads=(1, 2))
@pl.jit
def a_mixed_soft_barrier_counts_three_cores_per_block(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    workspace = pl.create_tensor([64], pl.INT32, init_value=0)
    shared = pl.create_tensor([4, 8], pl.INT32)
    for b in pl.spmd(4, sync_start=True):
        shared = pl.store(pl.load(x, [b, 0], [1, 8]), [b, 0], shared)
        pl.system.syncall(mode="soft", gm_workspace=workspace, used_cores=12)
        pl.store(pl.load(shared, [(b + 1) % 4, 0], [1, 8]), [b, 0], out)
    return out


@pl.program
class MixedBarrierOfTwoKernels:
    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, x: pl.Tensor[[4, 8], pl.INT32], w: pl.InOut[pl.Tensor[[64], pl.INT32]], shared: pl.InOut[pl.Tensor[[4, 8], pl.INT32]]):
        b = pl.tile.get_block_idx()
        shared = pl.store(pl.load(x, [b, 0], [1, 8]), [b, 0], shared)
        pl.system.syncall(mode="soft", gm_workspace=w, used_cores=12)

    @pl.function(type=pl.FunctionType.AIV)
    def vector(self, w: pl.InOut[pl.Tensor[[64], pl.INT32]], shared: pl.InOut[pl.Tensor[[4, 8], pl.INT32]], out: pl.Out[pl.Tensor[[4, 8], pl.INT32]]):
        b = pl.tile.get_block_idx()
        pl.system.syncall(mode="soft", gm_workspace=w, used_cores=12)
        out = pl.store(pl.load(shared, [(b + 1) % 4, 0], [1, 8]), [b, 0], out)

    @pl.function(type=pl.FunctionType.Group)
    def pair(
        self,
        x: pl.Tensor[[4, 8], pl.INT32],
        w: pl.InOut[pl.Tensor[[64], pl.INT32]],
        shared: pl.InOut[pl.Tensor[[4, 8], pl.INT32]],
        out: pl.Out[pl.Tensor[[4, 8], pl.INT32]],
    ):
        self.cube(x, w, shared)
        self.vector(w, shared, out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        x: pl.Tensor[[4, 8], pl.INT32],
        w: pl.InOut[pl.Tensor[[64], pl.INT32]],
        shared: pl.InOut[pl.Tensor[[4, 8], pl.INT32]],
        out: pl.Out[pl.Tensor[[4, 8], pl.INT32]],
    ):
        with pl.spmd(4, sync_start=True):
            self.pair(x, w, shared, out)


CASES(i32(4, 8), i32(64), i32(4, 8), expected=lambda x, w, shared: (w, x, np.roll(x, -1, 0)))(MixedBarrierOfTwoKernels)


# ranges, extents, prefetches, task ids --------------------------------------------------------------------------------


@CASES(i32(1, low=0, high=9), expected=lambda n: (np.arange(16, dtype=np.uint32)[None] + np.uint32(n[0]), (20 - np.arange(16)).astype(np.uint16)[None]))
@pl.jit
def unsigned_ranges_of_tiles(n: pl.Tensor, a: pl.Out[pl.Tensor[[1, 16], pl.UINT32]], b: pl.Out[pl.Tensor[[1, 16], pl.UINT16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.tile.ci(n[0], [1, 16], dtype=pl.UINT32), [0, 0], a)
        pl.store(pl.tile.arange(20, [1, 16], dtype=pl.UINT16, descending=True), [0, 0], b)
    return a, b


@CASES(i32(1, low=0, high=9), expected=lambda n: (np.arange(64, dtype=np.uint16) + np.uint16(n[0])).reshape(4, 16))
@pl.jit
def unsigned_ranges_that_go_on(n: pl.Tensor, out: pl.Out[pl.Tensor[[4, 16], pl.UINT16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(4):
            first = pl.cast(n[0], pl.INDEX) + i * 16
            pl.store(pl.tile.ci(first, [1, 16], dtype=pl.UINT16), [i, 0], out)
    return out


@CASES(f32(3, 8), expected=lambda x: np.repeat(x.sum(dtype=float32).reshape(1, 1), 8, 1), more=[(f32(6, 8),)], compiles=1, tol=1e-5)
@pl.jit
def an_extent_as_a_bound(x: pl.Tensor[[M, 8], pl.FP32], out: pl.Out[pl.Tensor[[1, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        m: pl.Scalar[pl.INT64] = pl.tensor.dim(x, 0)
        total = pl.tile.full([1, 8], dtype=pl.FP32, value=0.0)
        for i in pl.range(pl.cast(m, pl.INDEX)):
            row = pl.load(x, [i, 0], [1, 8])
            total = pl.row_expand_add(total, pl.row_sum(row, pl.create_tile([1, 8], dtype=pl.FP32)))
        pl.store(total, [0, 0], out)
    return out


@CASES(f32(3, 8), expected=lambda x: x * float32(len(x) * 8), more=[(f32(7, 8),)], compiles=1)
@pl.jit
def an_extent_as_a_wide_integer(x: pl.Tensor[[M, 8], pl.FP32], out: pl.Out[pl.Tensor[[M, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        m: pl.Scalar[pl.INT64] = pl.tensor.dim(x, 0)
        n: pl.INT64 = pl.tensor.dim(x, 1)
        size: pl.Scalar[pl.INDEX] = m * n
        out[:] = x * pl.cast(size, pl.FP32)
    return out


@CASES(f32(3, 8), f32(5, 8), expected=lambda x, y: (np.concatenate([x, x]), y * float32(2)), more=[(f32(4, 8), f32(6, 8))], compiles=1)
@pl.jit
def extents_that_annotations_compute(
    x: pl.Tensor[[M, 8], pl.FP32], y: pl.Tensor[[M + 2, 8], pl.FP32], out: pl.Out[pl.Tensor[[M * 2, 8], pl.FP32]], b: pl.Out[pl.Tensor[[M + 2, 8], pl.FP32]]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:M] = x
        out[M : 2 * M] = x
        b[:] = y + y
    return out, b


@pl.program
class ComputedExtents:
    @pl.function(type=pl.FunctionType.Opaque)
    def main(
        self, x: pl.Tensor[[M, 8], pl.FP32], half: pl.Tensor[[M // 2, 8], pl.FP32], out: pl.Out[pl.Tensor[[2 * M - 1, 8], pl.FP32]]
    ) -> pl.Tensor[[2 * M - 1, 8], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[0:M] = x
            out[M : M + M // 2] = half
            out[M + M // 2 :] = 3.0
        return out


CASES(
    f32(6, 8), f32(3, 8), expected=lambda x, half: np.concatenate([x, half, np.full((len(x) - 1 - len(half), 8), 3, float32)]), more=[(f32(5, 8), f32(2, 8))]
)(ComputedExtents)


@CASES(f32(6, 8), expected=lambda x: x + float32(1))
@pl.jit
def a_matrix_is_prefetched(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        context = pl.prefetch.make_context()
        event = pl.prefetch.async_prefetch(x, context)
        pl.prefetch.wait(event, pl.prefetch.session(context))
        out[:] = x + 1.0
    return out


@CASES(f32(24), f32(2, 3, 8), expected=lambda x, y: x.reshape(3, 8) + y[1])
@pl.jit
def lines_and_cubes_are_prefetched(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor[[3, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        context = pl.prefetch.make_context()
        first = pl.prefetch.async_prefetch(x, context)
        second = pl.prefetch.async_prefetch(y, context)
        session = pl.prefetch.session(context)
        pl.prefetch.wait(first, session)
        pl.prefetch.wait(second, session)
        out[:] = pl.reshape(x, [3, 8]) + y[1]
    return out


@pl.jit.incore
def doubled(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    t = pl.load(x, [0, 0], [3, 8])
    out = pl.store(pl.add(pl.load(out, [0, 0], [3, 8]), t), [0, 0], out)
    return out


@CASES(f32(3, 8), f32(3, 8), expected=lambda x, out: out + x + x + x + x)
@pl.jit
def task_ids_in_an_array(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    ids = pl.array.create(4, pl.TASK_ID)
    for b in pl.range(4):
        out, tid = pl.submit(doubled, x, out, deps=[ids[b]])
        ids = pl.array.update_element(ids, b, tid)
    pl.system.task_dummy(deps=[ids[3]])
    return out
