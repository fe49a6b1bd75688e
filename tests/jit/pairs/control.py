"""Loops, branches, valid regions, dynamic extents, blocks."""

from __future__ import annotations

import numpy as np

import tilejit.language as pl
from tests.jit.pairs import Pair, f32

ROWS = pl.dynamic("ROWS")
N = pl.dynamic("N")


@pl.jit
def valid_scalar(x: pl.Tensor, length: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(length, [0]), pl.INDEX)
        t = pl.load(x, [0, 0], [8, 32], valid_shape=[8, n])
        t = pl.tile.fillpad(t, pad_value=pl.PadValue.zero)
        pl.store(pl.row_sum(t, t), [0, 0], out)
    return out


@pl.program
class ValidScalar:
    @pl.function(type=pl.FunctionType.Orchestration)
    def valid_scalar(self, x: pl.Tensor[[8, 32], pl.FP32], length: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[8, 1], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            n = pl.cast(pl.read(length, [0]), pl.INDEX)
            t = pl.load(x, [0, 0], [8, 32], valid_shape=[8, n])
            padded = pl.tile.fillpad(t, pad_value=pl.PadValue.zero)
            pl.store(pl.row_sum(padded, padded), [0, 0], out)
        return out


@pl.jit
def valid_branch(x: pl.Tensor, length: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(length, [0]), pl.INDEX)
        if n > 16:
            t = pl.load(x, [0, 0], [8, 32], valid_shape=[8, 16])
        else:
            t = pl.load(x, [0, 0], [8, 32], valid_shape=[8, n])
        t = pl.tile.fillpad(t, pad_value=pl.PadValue.min)
        pl.store(pl.row_max(t, t), [0, 0], out)
    return out


@pl.program
class ValidBranch:
    @pl.function(type=pl.FunctionType.Orchestration)
    def valid_branch(self, x: pl.Tensor[[8, 32], pl.FP32], length: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[8, 1], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            n = pl.cast(pl.read(length, [0]), pl.INDEX)
            if n > 16:
                t = pl.yield_(pl.load(x, [0, 0], [8, 32], valid_shape=[8, 16]))
            else:
                t = pl.yield_(pl.load(x, [0, 0], [8, 32], valid_shape=[8, n]))
            padded = pl.tile.fillpad(t, pad_value=pl.PadValue.min)
            pl.store(pl.row_max(padded, padded), [0, 0], out)
        return out


@pl.jit
def valid_loop(x: pl.Tensor, lengths: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(x.shape[0] // 8):
            n = pl.cast(pl.read(lengths, [i]), pl.INDEX)
            t = pl.tile.fillpad(pl.load(x, [i * 8, 0], [8, 32], valid_shape=[8, n]), pad_value=pl.PadValue.zero)
            out = pl.store(pl.row_sum(t, t), [i * 8, 0], out)
    return out


@pl.program
class ValidLoop:
    @pl.function(type=pl.FunctionType.Orchestration)
    def valid_loop(self, x: pl.Tensor[[24, 32], pl.FP32], lengths: pl.Tensor[[3], pl.INT32], out: pl.Out[pl.Tensor[[24, 1], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(3):
                n = pl.cast(pl.read(lengths, [i]), pl.INDEX)
                t = pl.load(x, [i * 8, 0], [8, 32], valid_shape=[8, n])
                padded = pl.tile.fillpad(t, pad_value=pl.PadValue.zero)
                pl.store(pl.row_sum(padded, padded), [i * 8, 0], out)
        return out


@pl.jit
def ragged(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows = pl.dynamic("ROWS")
    x.bind_dynamic(0, rows)
    out.bind_dynamic(0, rows)
    with pl.at(level=pl.Level.CORE_GROUP):
        n = x.shape[0]
        for i in pl.range((n + 15) // 16):
            t = pl.load(x, [i * 16, 0], [16, 12], valid_shape=[pl.min(n - i * 16, 16), 12])
            pl.store(pl.add(t, 1.0), [i * 16, 0], out)
    return out


@pl.program
class Ragged:
    @pl.function(type=pl.FunctionType.Orchestration)
    def ragged(self, x: pl.Tensor[[ROWS, 12], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 12], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            n = pl.tensor.dim(x, 0)
            for i in pl.range((n + 15) // 16):
                left = pl.min(n - i * 16, 16)
                t = pl.load(x, [i * 16, 0], [16, 12], valid_shape=[left, 12])
                pl.store(pl.add(t, 1.0), [i * 16, 0], out)
        return out


@pl.jit
def two_symbols(a: pl.Tensor[[ROWS, N], pl.FP32], b: pl.Tensor[[N, ROWS], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, ROWS], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b)
    return out


@pl.program
class TwoSymbols:
    @pl.function(type=pl.FunctionType.Orchestration)
    def two_symbols(self, a: pl.Tensor[[ROWS, N], pl.FP32], b: pl.Tensor[[N, ROWS], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, ROWS], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.matmul(a, b)
        return out


@pl.jit
def unrolled(x: pl.Tensor, steps: pl.INDEX, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 8])
        for i in pl.unroll(steps):
            t = pl.add(t, i + 1)
        pl.store(t, [0, 0], out)
    return out


@pl.program
class Unrolled:
    @pl.function(type=pl.FunctionType.Orchestration)
    def unrolled(self, x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [4, 8])
            t1 = pl.add(t, 1)
            t2 = pl.add(t1, 2)
            t3 = pl.add(t2, 3)
            pl.store(t3, [0, 0], out)
        return out


@pl.jit
def counted_while(x: pl.Tensor, cfg: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        limit = pl.cast(pl.read(cfg, [0]), pl.INDEX)
        t = pl.load(x, [0, 0], [4, 8])
        i = 0
        while i < limit:
            t = pl.mul(t, 0.5)
            i += 1
        pl.store(t, [0, 0], out)
    return out


@pl.program
class CountedWhile:
    @pl.function(type=pl.FunctionType.Orchestration)
    def counted_while(self, x: pl.Tensor[[4, 8], pl.FP32], cfg: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            limit = pl.cast(pl.read(cfg, [0]), pl.INDEX)
            t = pl.load(x, [0, 0], [4, 8])
            i = 0
            while i < limit:
                t = pl.mul(t, 0.5)
                i = i + 1
            pl.store(t, [0, 0], out)
        return out


@pl.jit
def early_exit(x: pl.Tensor, cfg: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        limit = pl.cast(pl.read(cfg, [0]), pl.INDEX)
        t = pl.load(x, [0, 0], [4, 8])
        for i in pl.range(10):
            if i == limit:
                break
            t = pl.add(t, 1.0)
        pl.store(t, [0, 0], out)
    return out


@pl.program
class EarlyExit:
    @pl.function(type=pl.FunctionType.Orchestration)
    def early_exit(self, x: pl.Tensor[[4, 8], pl.FP32], cfg: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            stop = pl.cast(pl.read(cfg, [0]), pl.INDEX)
            total = pl.load(x, [0, 0], [4, 8])
            for step in pl.range(10):
                if step == stop:
                    break
                total = pl.add(total, 1.0)
            pl.store(total, [0, 0], out)
        return out


@pl.jit
def chosen_by_flag(x: pl.Tensor, negate: pl.BOOL, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 8])
        if negate:
            t = pl.neg(t)
        else:
            t = pl.exp(t)
        pl.store(pl.add(t, t), [0, 0], out)
    return out


@pl.program
class ChosenByFlag:
    @pl.function(type=pl.FunctionType.Orchestration)
    def chosen_by_flag(self, x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.neg(pl.load(x, [0, 0], [4, 8]))
            pl.store(pl.add(t, t), [0, 0], out)
        return out


@pl.jit
def spmd_add(a: pl.Tensor, b: pl.Tensor, blocks: pl.INDEX, out: pl.Out[pl.Tensor]):
    rows = a.shape[0] // blocks
    for i in pl.spmd(blocks):
        t = pl.add(pl.load(a, [i * rows, 0], [rows, 16]), pl.load(b, [i * rows, 0], [rows, 16]))
        out = pl.store(t, [i * rows, 0], out)
    return out


@pl.program
class SpmdAdd:
    @pl.function(type=pl.FunctionType.Orchestration)
    def spmd_add(self, a: pl.Tensor[[32, 16], pl.FP32], b: pl.Tensor[[32, 16], pl.FP32], out: pl.Out[pl.Tensor[[32, 16], pl.FP32]]):
        for i in pl.spmd(4):
            ta = pl.load(a, [i * 8, 0], [8, 16])
            tb = pl.load(b, [i * 8, 0], [8, 16])
            out = pl.store(pl.add(ta, tb), [i * 8, 0], out)
        return out


@pl.jit
def split_k(a: pl.Tensor, b: pl.Tensor, c: pl.InOut[pl.Tensor]):
    for s in pl.spmd(a.shape[1] // 16):
        t = pl.matmul(pl.load(a, [0, s * 16], [8, 16]), pl.load(b, [s * 16, 0], [16, 8]))
        c = pl.store(t, [0, 0], c, atomic=pl.AtomicType.Add)
    return c


@pl.program
class SplitK:
    @pl.function(type=pl.FunctionType.Orchestration)
    def split_k(self, a: pl.Tensor[[8, 64], pl.FP32], b: pl.Tensor[[64, 8], pl.FP32], c: pl.InOut[pl.Tensor[[8, 8], pl.FP32]]):
        for s in pl.spmd(4):
            left = pl.load(a, [0, s * 16], [8, 16])
            right = pl.load(b, [s * 16, 0], [16, 8])
            pl.store(pl.matmul(left, right), [0, 0], c, atomic=pl.AtomicType.Add)
        return c


@pl.jit
def ordered(x: pl.Tensor, tmp: pl.Out[pl.Tensor], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tmp[:] = x + x
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = tmp * tmp
    return tmp, out


@pl.program
class Ordered:
    @pl.function(type=pl.FunctionType.Orchestration)
    def ordered(self, x: pl.Tensor[[5, 9], pl.FP32], tmp: pl.Out[pl.Tensor[[5, 9], pl.FP32]], out: pl.Out[pl.Tensor[[5, 9], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            tmp[:] = pl.add(x, x)
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.mul(tmp, tmp)
        return tmp, out


@pl.jit
def runtime_factor(x: pl.Tensor, out: pl.Out[pl.Tensor], k: pl.FP32 = 2.5):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.transpose(x, 0, 1) * k
    return out


@pl.program
class RuntimeFactor:
    @pl.function(type=pl.FunctionType.Orchestration)
    def runtime_factor(self, x: pl.Tensor[[4, 10], pl.FP32], out: pl.Out[pl.Tensor[[10, 4], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            turned = pl.transpose(x, 0, 1)
            out[:] = pl.mul(turned, 2.5)
        return out


def np_masked_sum(x: np.ndarray, lengths: np.ndarray, out: np.ndarray) -> np.ndarray:
    return np.concatenate([x[i * 8 : i * 8 + 8, :n].sum(1, keepdims=True) for i, n in enumerate(lengths)])


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


PAIRS = [
    Pair(valid_scalar, ValidScalar, (f32(8, 32), i32(19)), lambda x, n: x[:, : n[0]].sum(1, keepdims=True)),
    Pair(valid_branch, ValidBranch, (f32(8, 32), i32(19)), lambda x, n: x[:, : min(n[0], 16)].max(1, keepdims=True)),
    Pair(valid_loop, ValidLoop, (f32(24, 32), i32(5, 32, 17), np.zeros((24, 1), np.float32)), np_masked_sum),
    Pair(ragged, Ragged, (f32(37, 12), np.zeros((37, 12), np.float32)), lambda x, out: x + 1),
    Pair(two_symbols, TwoSymbols, (f32(5, 7), f32(7, 5)), lambda a, b: a @ b),
    Pair(unrolled, Unrolled, (f32(4, 8),), lambda x: x + 6, scalars={"steps": 3}),
    Pair(counted_while, CountedWhile, (f32(4, 8), i32(3)), lambda x, n: x * 0.125),
    Pair(early_exit, EarlyExit, (f32(4, 8), i32(4)), lambda x, n: x + 4),
    Pair(chosen_by_flag, ChosenByFlag, (f32(4, 8),), lambda x: -2 * x, scalars={"negate": True}),
    Pair(spmd_add, SpmdAdd, (f32(32, 16), f32(32, 16), np.zeros((32, 16), np.float32)), lambda a, b, out: a + b, scalars={"blocks": 4}),
    Pair(split_k, SplitK, (f32(8, 64), f32(64, 8), f32(8, 8)), lambda a, b, c: c + a @ b),
    Pair(ordered, Ordered, (f32(5, 9), f32(5, 9), f32(5, 9)), lambda x, tmp, out: (x + x, (x + x) * (x + x))),
    Pair(runtime_factor, RuntimeFactor, (f32(4, 10),), lambda x: x.T * 2.5),
]
