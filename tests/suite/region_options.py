"""Regions with their options, scopes, clusters, two vector lanes, on-core arrays, memory declarations, and what is a no-op here."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilejit.language as pl
from tests.suite.harness import Cases, f16, f32, i32

CASES = Cases()
Array = np.ndarray[Any, Any]


# pl.at and its options --------------------------------------------------------------------------------------------------


@CASES(f32(8, 16), f32(16, 8), f32(1, 8), expected=lambda a, b, c: np.maximum(a @ b + c, 0), tol=1e-4)
@pl.jit
def at_with_all_options(a: pl.Tensor, b: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    acc = pl.create_tensor([8, 8], dtype=pl.FP32)
    with pl.at(
        level=pl.Level.CORE_GROUP,
        optimizations=[pl.split(pl.SplitMode.UP_DOWN), pl.cross_core_slot(slot_num=4)],
        name_hint="product",
        allow_early_resolve=True,
    ) as first:
        acc[:] = pl.matmul(a, b)
    with pl.at(level=pl.Level.CORE_GROUP, deps=[first], no_dep_args=[bias], dumps=[acc], windowize=False, name_hint="activation"):
        out[:] = pl.maximum(pl.col_expand_add(acc, bias), 0.0)
    return out


@CASES(f32(6, 10), expected=lambda x: x * 2 + 1)
@pl.jit
def levels_of_the_machine_nest(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.HOST, role=pl.Role.Orchestrator):  # noqa: SIM117 - one context manager per `with`
        with pl.at(level=pl.Level.CHIP):
            with pl.at(level=pl.Level.CORE_GROUP):
                t = pl.mul(x, 2.0)
                out[:] = pl.add(t, 1.0)
    return out


@CASES(f32(6, 10), expected=lambda x: np.exp(x) + x, tol=1e-5)
@pl.jit
def values_leave_a_region(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(x)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(e, x)
    return out


@CASES(f32(5, 9), np.array([2], np.int32), expected=lambda x, n: x * n[0] + n[0], tol=1e-6)
@pl.jit
def scalars_enter_and_leave_regions(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        k = pl.cast(pl.read(n, [0]), pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [5, 9])
        pl.store(pl.add(pl.mul(t, k), k), [0, 0], out)
    return out


@CASES(f32(5, 9), f32(5, 9), expected=lambda a, b: (a - b, a + b))
@pl.jit
def older_spelling_and_cluster(a: pl.Tensor, b: pl.Tensor, less: pl.Out[pl.Tensor], more: pl.Out[pl.Tensor]):
    with pl.cluster(name_hint="pair"):
        with pl.at(level=pl.Level.CORE_GROUP):
            less[:] = pl.sub(a, b)
        with pl.at(level=pl.Level.CORE_GROUP):
            more[:] = pl.add(a, b)
    return less, more


@CASES(f32(4, 8), expected=lambda x: x * 8)
@pl.jit(auto_scope=False)
def scopes_written_by_hand(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    tmp = pl.create_tensor([4, 8], dtype=pl.FP32, manual_dep=True)
    with pl.scope(mode=pl.ScopeMode.AUTO):  # noqa: SIM117 - one context manager per `with`
        with pl.at(level=pl.Level.CORE_GROUP):
            tmp[:] = pl.mul(x, 2.0)
    with pl.manual_scope():
        with pl.at(level=pl.Level.CORE_GROUP) as a:
            tmp[:] = pl.mul(tmp, 2.0)
        with pl.at(level=pl.Level.CORE_GROUP, deps=[a]):
            out[:] = pl.mul(tmp, 2.0)
    return out


@CASES(f32(12, 6), expected=lambda x: x.reshape(3, 4, 6).sum(1), tol=1e-5)
@pl.jit
def regions_in_loops_and_branches(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.range(3):
        if i == 1:
            with pl.at(level=pl.Level.CORE_GROUP):
                out[i : i + 1, :] = pl.col_sum(pl.slice(x, [4, 6], [4, 0]))
        else:
            with pl.at(level=pl.Level.CORE_GROUP):
                t = pl.load(x, [i * 4, 0], [4, 6])
                pl.store(pl.col_sum(t), [i, 0], out)
    return out


# two vector lanes -------------------------------------------------------------------------------------------------------


@CASES(f32(8, 12), expected=lambda x: x + np.repeat([[1.0], [2.0]], 4, 0).astype(np.float32))
@pl.jit
def lanes_take_rows(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            t = pl.load(x, [lane * 4, 0], [4, 12])
            out = pl.store(pl.add(t, pl.cast(lane + 1, pl.FP32)), [lane * 4, 0], out)
    return out


@CASES(f32(8, 12), expected=lambda x: x * np.repeat([1.0, -1.0], 6).astype(np.float32))
@pl.jit
def lanes_take_columns(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for lane in pl.split_aiv(2, mode=pl.SplitMode.LEFT_RIGHT):
            t = pl.load(x, [0, lane * 6], [8, 6])
            if lane == 1:
                t = pl.neg(t)
            out = pl.store(t, [0, lane * 6], out)
    return out


@CASES(f16(16, 32), f16(32, 16), expected=lambda a, b: np.exp(a.astype(np.float32) @ b.astype(np.float32) * 0.1), tol=2e-3)
@pl.jit
def shard_crosses_up_down(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(pl.load(a, [0, 0], [16, 32]), pl.load(b, [0, 0], [32, 16]))
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            half = pl.aiv_shard(acc)
            out = pl.store(pl.exp(pl.mul(half, 0.1)), [lane * 8, 0], out)
    return out


@CASES(f16(16, 32), f16(32, 16), expected=lambda a, b: np.abs(a.astype(np.float32) @ b.astype(np.float32)), tol=2e-3)
@pl.jit
def shard_crosses_left_right(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(pl.load(a, [0, 0], [16, 32]), pl.load(b, [0, 0], [32, 16]))
        for _ in pl.split_aiv(2, mode=pl.SplitMode.LEFT_RIGHT):
            half = pl.aiv_shard(acc)
            out = pl.store(pl.abs(half), [0, pl.tile.get_subblock_idx() * 8], out)
    return out


@CASES(f32(6, 8), f32(6, 8), expected=lambda x, y: y + 2 * x + 2 * x, tol=1e-6)
@pl.jit
def both_lanes_run_the_whole_body(x: pl.Tensor, y: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            t = pl.aiv_shard(pl.load(x, [0, 0], [6, 8]))
            for _ in pl.range(2 * lane, 2):
                t = pl.add(t, pl.mul(t, 0.5))
            if lane == 0:
                t = pl.mul(t, 4.0 / 9.0)
            y = pl.store(pl.add(pl.load(y, [0, 0], [6, 8]), pl.add(t, t)), [0, 0], y)
    return y


@CASES(f32(4, 16, 8), expected=lambda x: x - x.max(2, keepdims=True), tol=1e-6)
@pl.jit
def lanes_inside_blocks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(4):
        tmp = pl.create_tile([8, 8], dtype=pl.FP32)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            t = pl.reshape(pl.load(x, [i, lane * 8, 0], [1, 8, 8]), [8, 8])
            y = pl.row_expand_sub(t, pl.row_max(t, tmp))
            pl.store(pl.reshape(y, [1, 8, 8]), [i, lane * 8, 0], out)
    return out


@CASES(f32(8, 16), f32(16, 24), expected=lambda a, b: a @ b, tol=1e-4)
@pl.jit
def lanes_carry_state(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            acc = pl.tile.full([4, 24], dtype=pl.FP32, value=0.0)
            for k in pl.pipeline(0, 16, 8, stage=2):
                acc = pl.matmul_acc(acc, pl.load(a, [lane * 4, k], [4, 8]), pl.load(b, [k, 0], [8, 24]))
            out = pl.store(acc, [lane * 4, 0], out)
    return out


# on-core arrays ---------------------------------------------------------------------------------------------------------


@CASES(i32(6, 4, low=0, high=5), expected=lambda x: np.bincount(x.ravel(), minlength=5)[None].astype(np.int32))
@pl.jit
def counters_in_an_array(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        counts = pl.array.create(5, pl.INT32)
        for k in pl.unroll(5):
            counts[k] = 0
        for i in pl.range(6):
            for j in pl.range(4):
                v = pl.cast(pl.read(x, [i, j]), pl.INDEX)
                counts[v] = counts[v] + 1
        for k in pl.range(5):
            pl.write(out, [0, k], counts[k])
    return out


@CASES(i32(1, 9, low=-20, high=20), expected=lambda x: np.sort(x, 1))
@pl.jit
def insertion_sort_in_an_array(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.array.create(9, pl.INT32)
        for i in pl.range(9):
            a = pl.array.update_element(a, i, pl.read(x, [0, i]))
        for i in pl.range(1, 9):
            v = pl.array.get_element(a, i)
            j = i
            moving = True
            while moving:
                if j > 0:
                    before = a[pl.max(j - 1, 0)]
                    if before > v:
                        a[j] = before
                        j = j - 1
                    else:
                        moving = False
                else:
                    moving = False
            a[j] = v
        for i in pl.range(9):
            pl.write(out, [0, i], a[i])
    return out


@CASES(f32(8, 5), np.array([6, 1, 4], np.int32), expected=lambda x, rows: x[rows])
@pl.jit
def offsets_kept_in_an_array(x: pl.Tensor, rows: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        at = pl.array.create(3, pl.INT64)
        for i in pl.range(3):
            at[i] = pl.cast(pl.read(rows, [i]), pl.INT64)
        for i in pl.range(3):
            pl.store(pl.load(x, [at[i], 0], [1, 5]), [i, 0], out)
    return out


@CASES(i32(7, 3, low=0, high=4), expected=lambda x: np.array([[len(set(x[:, 0]))]], np.int32))
@pl.jit
def flags_in_an_array(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        seen = pl.array.create(4, pl.BOOL)
        for k in pl.range(4):
            seen[k] = False
        n = pl.const(0, pl.INT32)
        for i in pl.range(7):
            v = pl.cast(pl.read(x, [i, 0]), pl.INDEX)
            if not seen[v]:
                seen[v] = True
                n = n + 1
        pl.write(out, [0, 0], n)
    return out


# what changes no number -------------------------------------------------------------------------------------------------


@CASES(f32(6, 8), f32(48), expected=lambda x, flat: x + flat.reshape(6, 8))
@pl.jit
def prefetched(x: pl.Tensor, flat: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ctx = pl.prefetch.make_context()
        session = pl.prefetch.session(ctx)
        event = pl.prefetch.async_prefetch(flat, ctx)
        t = pl.load(x, [0, 0], [6, 8])
        pl.prefetch.wait(event, session)
        u = pl.load(pl.reshape(flat, [6, 8]), [0, 0], [6, 8])
        pl.store(pl.add(t, u), [0, 0], out)
    return out


@CASES(f32(6, 8), expected=lambda x: x * 3)
@pl.jit
def events_and_barriers(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [6, 8])
        pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
        pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
        t = pl.mul(t, 3.0)
        pl.system.bar_v()
        pl.system.bar_m()
        pl.system.bar_all()
        out = pl.store(t, [0, 0], out)
        pl.system.fence()
        pl.system.cacheinvalid(out, [6, 8], [0, 0])
        pl.system.cacheinvalid()
    return out


@CASES(f32(6, 8), f32(6, 8), expected=lambda a, b: a - b)
@pl.jit
def hints_on_tensors(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    pl.dump_tag(a)
    tmp = pl.create_tensor([6, 8], dtype=pl.FP32, manual_dep=True)
    with pl.at(level=pl.Level.CORE_GROUP):
        tmp[:] = pl.neg(b)
    pl.dump_tag(tmp)
    out = difference(a, pl.no_dep(tmp), out)
    return out


@pl.jit.incore
def difference(a: pl.Tensor, negative: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(a, negative)
    return out


@CASES(f32(8, 16), expected=lambda x: (x + 1) * 2)
@pl.program
class DeclaredMemory:
    """Tiles pinned to declared buffers, tiles in every space."""

    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]) -> pl.Tensor[[8, 16], pl.FP32]:
        slots = pl.MemRef("slots", slots=2)
        a: pl.Tile[[8, 16], pl.FP32, slots[0], pl.Mem.Vec] = pl.load(x, [0, 0], [8, 16])
        b: pl.Tile[[8, 16], pl.FP32, slots[1], pl.Mem.Vec] = pl.add(a, 1.0)
        c: pl.Tile[[8, 16], pl.FP32, pl.MemRef(), pl.Mem.Vec] = pl.mul(b, 2.0)
        return pl.store(c, [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]) -> pl.Tensor[[8, 16], pl.FP32]:
        return self.kernel(x, out)


@CASES(f16(8, 16), f16(16, 8), f32(1, 8), expected=lambda a, b, c: a.astype(np.float32) @ b.astype(np.float32) + c, tol=2e-3)
@pl.jit
def tiles_through_every_space(a: pl.Tensor, b: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a_l1 = pl.load(a, [0, 0], [8, 16], target_memory=pl.Mem.Mat)
        b_l1 = pl.load(b, [0, 0], [16, 8], target_memory=pl.Mem.Mat)
        c_l1 = pl.load(bias, [0, 0], [1, 8], target_memory=pl.Mem.Mat)
        left = pl.move(a_l1, target_memory=pl.Mem.Left)
        right = pl.move(b_l1, target_memory=pl.Mem.Right)
        added = pl.move(c_l1, target_memory=pl.Mem.Bias)
        acc: pl.Tile[[8, 8], pl.FP32, pl.Mem.Acc] = pl.matmul_bias(left, right, added)
        vec = pl.move(acc, target_memory=pl.Mem.Vec)
        pl.store(vec, [0, 0], out)
    return out


@CASES(f32(4, 8), expected=lambda x: x * 9, tol=1e-6)
@pl.jit
def static_statements(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = x.shape
    pl.static_assert(rows % 2 == 0, "an even number of rows")
    pl.static_print("rows", rows, f"columns {cols}")
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [rows, cols])
        pl.device_assert(pl.tensor.dim(x, 0) == 4, "four rows")
        for _ in pl.unroll(2):
            # three times as much, twice
            t = pl.add(t, pl.mul(t, 2.0))
        pl.store(t, [0, 0], out)
    return out


# long kernels -------------------------------------------------------------------------------------------------------------


def logistic_steps(x: Array) -> Array:
    for _ in range(24):
        x = x - x * x
    return x


@CASES(f32(9, 17, low=0.0, high=1.0), expected=logistic_steps, tol=1e-5)
@pl.jit
def values_used_twice_in_a_chain(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [9, 17])
        for _ in pl.unroll(24):
            t = pl.sub(t, pl.mul(t, t))
        pl.store(t, [0, 0], out)
    return out


def faded(x: Array) -> Array:
    for _ in range(300):
        x = x * np.float32(0.99) + np.float32(0.01)
    return x


@CASES(f32(3, 21), expected=faded, tol=1e-4)
@pl.jit
def chain_of_six_hundred_operators(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x
        for _ in pl.unroll(300):
            t = pl.add(pl.mul(t, 0.99), 0.01)
        out[:] = t
    return out
