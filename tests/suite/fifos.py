"""Cube and vector kernels that talk through FIFOs, whichever comes first; lanes with halves; barriers across blocks."""
# pl.Tuple is no type.
# pyright: reportReturnType=false

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tilejit.language as pl
from tests.suite.harness import Cases, f16, f32, i32

CASES = Cases()
Array = np.ndarray[Any, Any]


def product(a: Array, b: Array) -> Array:
    return a.astype(np.float32) @ b.astype(np.float32)


@CASES(f16(16, 32), f16(32, 16), expected=lambda a, b: np.exp(product(a, b) * 0.1), tol=2e-3)
@pl.program
class CubeThenVector:
    """The product goes through a FIFO, not through memory."""

    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, a: pl.Tensor[[16, 32], pl.FP16], b: pl.Tensor[[32, 16], pl.FP16]):
        pl.aic_initialize_pipe(dir_mask=1, slot_size=1024, slot_num=2)
        acc = pl.matmul(pl.load(a, [0, 0], [16, 32], target_memory=pl.Mem.Mat), pl.load(b, [0, 0], [32, 16], target_memory=pl.Mem.Mat))
        pl.tpush_to_aiv(acc, split=0)

    @pl.function(type=pl.FunctionType.AIV)
    def vector(self, out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]) -> pl.Tensor[[16, 16], pl.FP32]:
        buf = pl.reserve_buffer(name="c2v", size=2048)
        pl.aiv_initialize_pipe(c2v_consumer_buf=buf, dir_mask=1, slot_size=1024, slot_num=2)
        t: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aic(split=0)
        e = pl.exp(pl.mul(t, 0.1))
        pl.tfree_to_aic(t)
        return pl.store(e, [0, 0], out)

    @pl.function(type=pl.FunctionType.Group)
    def pair(self, a: pl.Tensor[[16, 32], pl.FP16], b: pl.Tensor[[32, 16], pl.FP16], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]) -> pl.Tensor[[16, 16], pl.FP32]:
        self.cube(a, b)
        out = self.vector(out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[16, 32], pl.FP16], b: pl.Tensor[[32, 16], pl.FP16], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]) -> pl.Tensor[[16, 16], pl.FP32]:
        out = self.pair(a, b, out)
        return out


@CASES(f16(16, 32), f16(32, 16), expected=lambda a, b: np.abs(product(a, b)), tol=2e-3)
@pl.program
class VectorComesFirst:
    """The side that pops stands first in the text."""

    @pl.function(type=pl.FunctionType.AIV)
    def vector(self, out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]) -> pl.Tensor[[16, 16], pl.FP32]:
        t = pl.tpop_from_aic(shape=[16, 16], dtype=pl.FP32, split=0)
        out = pl.store(pl.abs(t), [0, 0], out)
        pl.tfree_to_aic(t)
        return out

    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, a: pl.Tensor[[16, 32], pl.FP16], b: pl.Tensor[[32, 16], pl.FP16]):
        pl.tpush_to_aiv(pl.matmul(pl.load(a, [0, 0], [16, 32]), pl.load(b, [0, 0], [32, 16])), split=0)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[16, 32], pl.FP16], b: pl.Tensor[[32, 16], pl.FP16], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]) -> pl.Tensor[[16, 16], pl.FP32]:
        with pl.cluster():
            out = self.vector(out)
            self.cube(a, b)
        return out


@CASES(f32(16, 16), f32(16, 16), expected=lambda a, b: np.maximum(a, 0) @ b, tol=1e-4)
@pl.program
class VectorFeedsCube:
    """An activation on the vector core before a product on the cube core."""

    @pl.function(type=pl.FunctionType.AIV)
    def vector(self, a: pl.Tensor[[16, 16], pl.FP32]):
        pl.aiv_initialize_pipe(dir_mask=2, slot_size=1024)
        pl.tpush_to_aic(pl.relu(pl.load(a, [0, 0], [16, 16])), split=0)

    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, b: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]) -> pl.Tensor[[16, 16], pl.FP32]:
        buf = pl.import_peer_buffer(name="v2c", peer_func="vector")
        pl.aic_initialize_pipe(v2c_consumer_buf=buf, dir_mask=2, slot_size=1024)
        t: pl.Tile[[16, 16], pl.FP32, pl.Mem.Mat] = pl.tpop_from_aiv(split=0)
        out = pl.store(pl.matmul(t, pl.load(b, [0, 0], [16, 16])), [0, 0], out)
        pl.tfree_to_aiv(t)
        return out

    @pl.function(type=pl.FunctionType.Group)
    def pair(self, a: pl.Tensor[[16, 16], pl.FP32], b: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]) -> pl.Tensor[[16, 16], pl.FP32]:
        self.vector(a)
        out = self.cube(b, out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[16, 16], pl.FP32], b: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]) -> pl.Tensor[[16, 16], pl.FP32]:
        return self.pair(a, b, out)


@CASES(f32(4, 8, 8), f32(8, 8), expected=lambda a, b: np.maximum(a, 0) @ b + 1, tol=1e-4)
@pl.program
class ThereAndBackAgain:
    """Both directions in a loop: vector prepares, cube multiplies, vector finishes; four tiles through few slots."""

    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, b: pl.Tensor[[8, 8], pl.FP32]):
        pl.aic_initialize_pipe(dir_mask=3, slot_size=256, slot_num=2)
        tb = pl.load(b, [0, 0], [8, 8])
        for _ in pl.range(4):
            t: pl.Tile[[8, 8], pl.FP32] = pl.tpop_from_aiv(split=0, id=0)
            acc = pl.matmul(t, tb)
            pl.tfree_to_aiv(t, id=0)
            pl.tpush_to_aiv(acc, split=0, id=0)

    @pl.function(type=pl.FunctionType.AIV)
    def vector(self, a: pl.Tensor[[4, 8, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8, 8], pl.FP32]]) -> pl.Tensor[[4, 8, 8], pl.FP32]:
        pl.aiv_initialize_pipe(dir_mask=3, slot_size=256, slot_num=2)
        for i in pl.range(4):
            x = pl.reshape(pl.load(a, [i, 0, 0], [1, 8, 8]), [8, 8])
            pl.tpush_to_aic(pl.relu(x), split=0, id=0)
            y: pl.Tile[[8, 8], pl.FP32] = pl.tpop_from_aic(split=0, id=0)
            out = pl.store(pl.reshape(pl.add(y, 1.0), [1, 8, 8]), [i, 0, 0], out)
            pl.tfree_to_aic(y)
        return out

    @pl.function(type=pl.FunctionType.Group)
    def pair(
        self, a: pl.Tensor[[4, 8, 8], pl.FP32], b: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8, 8], pl.FP32]]
    ) -> pl.Tensor[[4, 8, 8], pl.FP32]:
        self.cube(b)
        out = self.vector(a, out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self, a: pl.Tensor[[4, 8, 8], pl.FP32], b: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8, 8], pl.FP32]]
    ) -> pl.Tensor[[4, 8, 8], pl.FP32]:
        out = self.pair(a, b, out)
        return out


@CASES(f32(8, 8), f32(8, 8), expected=lambda a, b: (a @ b) * (b @ a), tol=1e-4)
@pl.program
class TwoFifosByNumber:
    """Two FIFOs of one direction, told apart by their id, popped in the other order than pushed."""

    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, a: pl.Tensor[[8, 8], pl.FP32], b: pl.Tensor[[8, 8], pl.FP32]):
        ta = pl.load(a, [0, 0], [8, 8])
        tb = pl.load(b, [0, 0], [8, 8])
        pl.tpush_to_aiv(pl.matmul(ta, tb), split=0, id=0)
        pl.tpush_to_aiv(pl.matmul(tb, ta), split=0, id=1)

    @pl.function(type=pl.FunctionType.AIV)
    def vector(self, out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]) -> pl.Tensor[[8, 8], pl.FP32]:
        second: pl.Tile[[8, 8], pl.FP32] = pl.tpop_from_aic(split=0, id=1)
        first: pl.Tile[[8, 8], pl.FP32] = pl.tpop_from_aic(split=0, id=0)
        out = pl.store(pl.mul(first, second), [0, 0], out)
        pl.tfree_to_aic(first)
        pl.tfree_to_aic(second)
        return out

    @pl.function(type=pl.FunctionType.Group)
    def pair(self, a: pl.Tensor[[8, 8], pl.FP32], b: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]) -> pl.Tensor[[8, 8], pl.FP32]:
        self.cube(a, b)
        out = self.vector(out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[8, 8], pl.FP32], b: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]) -> pl.Tensor[[8, 8], pl.FP32]:
        return self.pair(a, b, out)


@CASES(f32(16, 8), f32(8, 16), expected=lambda a, b: product(a, b) + np.repeat([[0.0], [1.0]], 8, 0).astype(np.float32), tol=1e-4)
@pl.program
class HalvesUpAndDown:
    """Each of the two vector lanes gets eight rows of the product."""

    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, a: pl.Tensor[[16, 8], pl.FP32], b: pl.Tensor[[8, 16], pl.FP32]):
        pl.tpush_to_aiv(pl.matmul(pl.load(a, [0, 0], [16, 8]), pl.load(b, [0, 0], [8, 16])), split=1)

    @pl.function(type=pl.FunctionType.AIV)
    def vector(self, out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]) -> pl.Tensor[[16, 16], pl.FP32]:
        lane = pl.tile.get_subblock_idx()
        t: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aic(split=1)
        out = pl.store(pl.add(t, pl.cast(lane, pl.FP32)), [lane * 8, 0], out)
        pl.tfree_to_aic(t)
        return out

    @pl.function(type=pl.FunctionType.Group)
    def pair(self, a: pl.Tensor[[16, 8], pl.FP32], b: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]) -> pl.Tensor[[16, 16], pl.FP32]:
        self.cube(a, b)
        out = self.vector(out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[16, 8], pl.FP32], b: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]) -> pl.Tensor[[16, 16], pl.FP32]:
        return self.pair(a, b, out)


@CASES(f32(8, 12), f32(12, 8), expected=lambda a, b: np.tanh(a) @ b, tol=1e-4)
@pl.program
class HalvesJoinOnTheCube:
    """Each lane prepares half of the columns; the cube core pops the whole tile."""

    @pl.function(type=pl.FunctionType.AIV)
    def vector(self, a: pl.Tensor[[8, 12], pl.FP32]):
        lane = pl.tile.get_subblock_idx()
        t = pl.tanh(pl.load(a, [0, lane * 6], [8, 6]))
        pl.tpush_to_aic(t, split=2)

    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, b: pl.Tensor[[12, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]) -> pl.Tensor[[8, 8], pl.FP32]:
        t: pl.Tile[[8, 12], pl.FP32] = pl.tpop_from_aiv(split=2)
        out = pl.store(pl.matmul(t, pl.load(b, [0, 0], [12, 8])), [0, 0], out)
        pl.tfree_to_aiv(t)
        return out

    @pl.function(type=pl.FunctionType.Group)
    def pair(self, a: pl.Tensor[[8, 12], pl.FP32], b: pl.Tensor[[12, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]) -> pl.Tensor[[8, 8], pl.FP32]:
        self.vector(a)
        out = self.cube(b, out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[8, 12], pl.FP32], b: pl.Tensor[[12, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]) -> pl.Tensor[[8, 8], pl.FP32]:
        return self.pair(a, b, out)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@CASES(f32(16, 8), f32(32, 8), f32(32, 8), expected=lambda q, k, v: softmax(q @ k.T / math.sqrt(8)) @ v, tol=1e-4)
@pl.program
class AttentionOnTwoCores:
    """Scores and weighted values on the cube core, the running softmax on the vector core, block after block of keys."""

    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, q: pl.Tensor[[16, 8], pl.FP32], k: pl.Tensor[[32, 8], pl.FP32], v: pl.Tensor[[32, 8], pl.FP32]):
        tq = pl.load(q, [0, 0], [16, 8])
        for j in pl.range(4):
            s = pl.matmul(tq, pl.transpose(pl.load(k, [j * 8, 0], [8, 8]), 0, 1))
            pl.tpush_to_aiv(s, split=0, id=0)
            p: pl.Tile[[16, 8], pl.FP32] = pl.tpop_from_aiv(split=0, id=0)
            pv = pl.matmul(p, pl.load(v, [j * 8, 0], [8, 8]))
            pl.tfree_to_aiv(p)
            pl.tpush_to_aiv(pv, split=0, id=1)

    @pl.function(type=pl.FunctionType.AIV)
    def vector(self, out: pl.Out[pl.Tensor[[16, 8], pl.FP32]]) -> pl.Tensor[[16, 8], pl.FP32]:
        tmp = pl.create_tile([16, 8], dtype=pl.FP32)
        m = pl.tile.full([16, 1], dtype=pl.FP32, value=-1e30)
        l = pl.tile.full([16, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([16, 8], dtype=pl.FP32, value=0.0)
        for _ in pl.range(4):
            raw: pl.Tile[[16, 8], pl.FP32] = pl.tpop_from_aic(split=0, id=0)
            s = pl.mul(raw, 1.0 / math.sqrt(8))
            pl.tfree_to_aic(raw)
            top = pl.maximum(m, pl.row_max(s, tmp))
            p = pl.row_expand_expdif(s, top)
            pl.tpush_to_aic(p, split=0, id=0)
            fade = pl.exp(pl.sub(m, top))
            l = pl.add(pl.mul(l, fade), pl.row_sum(p, tmp))
            m = top
            pv: pl.Tile[[16, 8], pl.FP32] = pl.tpop_from_aic(split=0, id=1)
            o = pl.add(pl.row_expand_mul(o, fade), pv)
            pl.tfree_to_aic(pv)
        return pl.store(pl.row_expand_div(o, l), [0, 0], out)

    @pl.function(type=pl.FunctionType.Group)
    def pair(
        self, q: pl.Tensor[[16, 8], pl.FP32], k: pl.Tensor[[32, 8], pl.FP32], v: pl.Tensor[[32, 8], pl.FP32], out: pl.Out[pl.Tensor[[16, 8], pl.FP32]]
    ) -> pl.Tensor[[16, 8], pl.FP32]:
        out = self.vector(out)
        self.cube(q, k, v)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self, q: pl.Tensor[[16, 8], pl.FP32], k: pl.Tensor[[32, 8], pl.FP32], v: pl.Tensor[[32, 8], pl.FP32], out: pl.Out[pl.Tensor[[16, 8], pl.FP32]]
    ) -> pl.Tensor[[16, 8], pl.FP32]:
        return self.pair(q, k, v, out)


@CASES(f32(24, 8), f32(8, 8), expected=lambda a, b: np.maximum(a @ b, 0), tol=1e-4, threads=(1, 2))
@pl.program
class PairsOnBlocks:
    """Three blocks, each a pair with FIFOs of its own."""

    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, a: pl.Tensor[[24, 8], pl.FP32], b: pl.Tensor[[8, 8], pl.FP32]):
        row = pl.tile.get_block_idx() * 8
        pl.tpush_to_aiv(pl.matmul(pl.load(a, [row, 0], [8, 8]), pl.load(b, [0, 0], [8, 8])), split=0)

    @pl.function(type=pl.FunctionType.AIV)
    def vector(self, out: pl.Out[pl.Tensor[[24, 8], pl.FP32]]) -> pl.Tensor[[24, 8], pl.FP32]:
        row = pl.tile.get_block_idx() * 8
        t: pl.Tile[[8, 8], pl.FP32] = pl.tpop_from_aic(split=0)
        out = pl.store(pl.relu(t), [row, 0], out)
        pl.tfree_to_aic(t)
        return out

    @pl.function(type=pl.FunctionType.Group)
    def pair(self, a: pl.Tensor[[24, 8], pl.FP32], b: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[24, 8], pl.FP32]]) -> pl.Tensor[[24, 8], pl.FP32]:
        self.cube(a, b)
        out = self.vector(out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[24, 8], pl.FP32], b: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[24, 8], pl.FP32]]) -> pl.Tensor[[24, 8], pl.FP32]:
        with pl.spmd(3):
            out = self.pair(a, b, out)
        return out


# lanes of one region ------------------------------------------------------------------------------------------------------


@CASES(f32(16, 8), f32(8, 16), f32(16, 8), expected=lambda a, b, c: np.maximum(a @ b, 0) @ c, tol=1e-4)
@pl.jit
def gathered_from_both_lanes(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Cube, two vector lanes, cube again: halves go out and come back as one tile."""
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(pl.load(a, [0, 0], [16, 8]), pl.load(b, [0, 0], [8, 16]))
        for _ in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            half = pl.aiv_shard(acc)
            whole = pl.aic_gather(pl.relu(half))
        out = pl.store(pl.matmul(whole, pl.load(c, [0, 0], [16, 8])), [0, 0], out)
    return out


@CASES(f32(8, 8), f32(8, 12), f32(12, 4), expected=lambda a, b, c: np.exp((a @ b) * 0.1) @ c, tol=1e-4)
@pl.jit
def gathered_columns(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(pl.load(a, [0, 0], [8, 8]), pl.load(b, [0, 0], [8, 12]))
        for _ in pl.split_aiv(2, mode=pl.SplitMode.LEFT_RIGHT):
            whole = pl.aic_gather(pl.exp(pl.mul(pl.aiv_shard(acc), 0.1)))
        out = pl.store(pl.matmul(whole, pl.load(c, [0, 0], [12, 4])), [0, 0], out)
    return out


@CASES(f32(16, 8), f32(24, 8), f32(24, 8), expected=lambda q, k, v: softmax(q @ k.T / math.sqrt(8)) @ v, tol=1e-4)
@pl.jit
def attention_with_lanes_in_a_loop(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tq = pl.load(q, [0, 0], [16, 8])
        s = pl.matmul(tq, pl.transpose(pl.load(k, [0, 0], [24, 8]), 0, 1))
        for _ in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            half = pl.mul(pl.aiv_shard(s), 1.0 / math.sqrt(8))
            tmp = pl.create_tile([8, 24], dtype=pl.FP32)
            e = pl.row_expand_expdif(half, pl.row_max(half, tmp))
            p = pl.aic_gather(pl.row_expand_div(e, pl.row_sum(e, tmp)))
        out = pl.store(pl.matmul(p, pl.load(v, [0, 0], [24, 8])), [0, 0], out)
    return out


# barriers -----------------------------------------------------------------------------------------------------------------


@CASES(f32(6, 8), expected=lambda x: np.roll(x * 2, -1, 0), threads=(1, 2))
@pl.jit
def blocks_meet_and_read_their_neighbour(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    shared = pl.create_tensor([6, 8], dtype=pl.FP32)
    with pl.spmd(6, sync_start=True):
        i = pl.tile.get_block_idx()
        n = pl.tile.get_block_num()
        shared = pl.store(pl.mul(pl.load(x, [i, 0], [1, 8]), 2.0), [i, 0], shared)
        pl.system.syncall()
        pl.store(pl.load(shared, [(i + 1) % n, 0], [1, 8]), [i, 0], out)
    return out


@CASES(i32(8, 5, low=-9, high=9), expected=lambda x: np.cumsum(x, 0).astype(np.int32), threads=(1, 2))
@pl.jit
def prefix_sum_with_barriers(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Doubling steps inside one launch: every step ends in a barrier, twice."""
    workspace = pl.create_tensor([64], dtype=pl.INT32, init_value=0)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
    for i in pl.spmd(8, sync_start=True):
        step = 1
        for _ in pl.unroll(3):
            t = pl.load(out, [i, 0], [1, 5])
            if i >= step:
                t = pl.add(t, pl.load(out, [i - step, 0], [1, 5]))
            pl.system.syncall(core_type="aiv", mode="soft", gm_workspace=workspace, used_cores=8)
            pl.store(t, [i, 0], out)
            pl.system.syncall(core_type="aiv", mode="soft", gm_workspace=workspace, used_cores=8)
            step = step * 2
    return out


@CASES(f32(4, 16), expected=lambda x: softmax(x.reshape(1, -1)).reshape(4, 16), tol=1e-5, threads=(1, 2))
@pl.jit
def softmax_across_blocks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    tops = pl.create_tensor([4, 1], dtype=pl.FP32)
    sums = pl.create_tensor([4, 1], dtype=pl.FP32)
    for i in pl.spmd(4, sync_start=True):
        tmp = pl.create_tile([1, 16], dtype=pl.FP32)
        t = pl.load(x, [i, 0], [1, 16])
        tops = pl.store(pl.row_max(t, tmp), [i, 0], tops)
        pl.system.syncall()
        top = pl.col_max(pl.load(tops, [0, 0], [4, 1]))
        e = pl.row_expand_expdif(t, top)
        sums = pl.store(pl.row_sum(e, tmp), [i, 0], sums)
        pl.system.syncall()
        total = pl.col_sum(pl.load(sums, [0, 0], [4, 1]))
        pl.store(pl.row_expand_div(e, total), [i, 0], out)
    return out
