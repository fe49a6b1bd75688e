"""Products, concatenation, assembling, attention."""

from __future__ import annotations

import numpy as np

import tilejit.language as pl
from tests.jit.pairs import Pair, f32

D = 16


@pl.jit
def matmul(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ta = pl.load(a, [0, 0], [a.shape[0], a.shape[1]], target_memory=pl.Mem.Mat)
        tb = pl.load(b, [0, 0], [b.shape[0], b.shape[1]], target_memory=pl.Mem.Mat)
        acc = pl.matmul(pl.move(ta, target_memory=pl.Mem.Left), pl.move(tb, target_memory=pl.Mem.Right))
        pl.store(acc, [0, 0], c)
    return c


@pl.program
class Matmul:
    @pl.function(type=pl.FunctionType.Orchestration)
    def matmul(self, a: pl.Tensor[[16, 32], pl.FP32], b: pl.Tensor[[32, 8], pl.FP32], c: pl.Out[pl.Tensor[[16, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            ta = pl.load(a, [0, 0], [16, 32], target_memory=pl.MemorySpace.Mat)
            tb = pl.load(b, [0, 0], [32, 8], target_memory=pl.MemorySpace.Mat)
            left = pl.move(ta, target_memory=pl.MemorySpace.Left)
            right = pl.move(tb, target_memory=pl.MemorySpace.Right)
            pl.store(pl.matmul(left, right), [0, 0], c)
        return c


@pl.jit
def matmul_acc(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.tile.full([D, D], dtype=pl.FP32, value=0.0)
        for k in pl.range(a.shape[1] // D):
            acc = pl.matmul_acc(acc, pl.load(a, [0, k * D], [D, D]), pl.load(b, [k * D, 0], [D, D]))
        pl.store(acc, [0, 0], c)
    return c


@pl.program
class MatmulAcc:
    @pl.function(type=pl.FunctionType.Orchestration)
    def matmul_acc(self, a: pl.Tensor[[16, 48], pl.FP32], b: pl.Tensor[[48, 16], pl.FP32], c: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            start = pl.tile.full([16, 16], dtype=pl.FP32, value=0.0)
            for k, (acc,) in pl.range(3, init_values=(start,)):
                ta = pl.load(a, [0, k * 16], [16, 16])
                tb = pl.load(b, [k * 16, 0], [16, 16])
                total = pl.yield_(pl.matmul_acc(acc, ta, tb))
            pl.store(total, [0, 0], c)
        return c


@pl.jit
def matmul_bias(a: pl.Tensor, b: pl.Tensor, bias: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.col_expand_add(pl.matmul(a, b), bias)
    return c


@pl.program
class MatmulBias:
    @pl.function(type=pl.FunctionType.Orchestration)
    def matmul_bias(
        self, a: pl.Tensor[[6, 20], pl.FP32], b: pl.Tensor[[20, 10], pl.FP32], bias: pl.Tensor[[1, 10], pl.FP32], c: pl.Out[pl.Tensor[[6, 10], pl.FP32]]
    ):
        with pl.at(level=pl.Level.CORE_GROUP):
            product = pl.matmul(a, b)
            c[:] = pl.col_expand_add(product, bias)
        return c


@pl.jit
def linear_relu(x: pl.Tensor, w: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = pl.matmul(x, w, b_trans=True, out_dtype=x.dtype)
        y = pl.col_expand_add(y, bias)
        out[:] = pl.maximum(y, 0.0)
    return out


@pl.program
class LinearRelu:
    @pl.function(type=pl.FunctionType.Orchestration)
    def linear_relu(
        self, x: pl.Tensor[[6, 20], pl.FP32], w: pl.Tensor[[10, 20], pl.FP32], bias: pl.Tensor[[1, 10], pl.FP32], out: pl.Out[pl.Tensor[[6, 10], pl.FP32]]
    ):
        with pl.at(level=pl.Level.CORE_GROUP):
            y: pl.Tensor[[6, 10], pl.FP32] = pl.matmul(x, w, b_trans=True, out_dtype=pl.FP32)
            z: pl.Tensor[[6, 10], pl.FP32] = pl.col_expand_add(y, bias)
            out[:] = pl.maximum(z, 0.0)
        return out


@pl.jit
def concat(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.concat(pl.load(a, [0, 0], [8, D]), pl.load(b, [0, 0], [8, D * 2])), [0, 0], out)
    return out


@pl.program
class Concat:
    @pl.function(type=pl.FunctionType.Orchestration)
    def concat(self, a: pl.Tensor[[8, 16], pl.FP32], b: pl.Tensor[[8, 32], pl.FP32], out: pl.Out[pl.Tensor[[8, 48], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            left = pl.load(a, [0, 0], [8, 16])
            right = pl.load(b, [0, 0], [8, 32])
            pl.store(pl.concat(left, right), [0, 0], out)
        return out


@pl.jit
def assemble_vec(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        whole = pl.tile.full([8, D * 2], dtype=pl.FP32, value=0.0)
        whole = pl.assemble(whole, pl.load(a, [0, 0], [8, D]), [0, 0])
        whole = pl.assemble(whole, pl.load(b, [0, 0], [8, D]), [0, D])
        pl.store(whole, [0, 0], out)
    return out


@pl.program
class AssembleVec:
    @pl.function(type=pl.FunctionType.Orchestration)
    def assemble_vec(self, a: pl.Tensor[[8, 16], pl.FP32], b: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 32], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            empty = pl.tile.full([8, 32], dtype=pl.FP32, value=0.0)
            first = pl.assemble(empty, pl.load(a, [0, 0], [8, 16]), [0, 0])
            second = pl.assemble(first, pl.load(b, [0, 0], [8, 16]), [0, 16])
            pl.store(second, [0, 0], out)
        return out


@pl.jit
def assemble_acc_to_mat(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(pl.load(a, [0, 0], [D, D]), pl.load(b, [0, 0], [D, D]))
        mat = pl.create_tile([D, D], dtype=pl.FP32, target_memory=pl.Mem.Mat)
        mat = pl.assemble(mat, acc, [0, 0])
        pl.store(mat, [0, 0], out)
    return out


@pl.program
class AssembleAccToMat:
    @pl.function(type=pl.FunctionType.Orchestration)
    def assemble_acc_to_mat(self, a: pl.Tensor[[16, 16], pl.FP32], b: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            left = pl.load(a, [0, 0], [16, 16])
            right = pl.load(b, [0, 0], [16, 16])
            acc = pl.matmul(left, right)
            empty = pl.create_tile([16, 16], dtype=pl.FP32, target_memory=pl.MemorySpace.Mat)
            pl.store(pl.assemble(empty, acc, [0, 0]), [0, 0], out)
        return out


@pl.jit
def assemble_rows(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(x.shape[0]):
            out[i : i + 1, :] = pl.mul(x[i : i + 1, :], 2.0)
    return out


@pl.program
class AssembleRows:
    @pl.function(type=pl.FunctionType.Orchestration)
    def assemble_rows(self, x: pl.Tensor[[6, 12], pl.FP32], out: pl.Out[pl.Tensor[[6, 12], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(6):
                row = pl.mul(x[i : i + 1, :], 2.0)
                out[i : i + 1, :] = row
        return out


@pl.jit
def assemble_blocks(x: pl.Tensor, step: pl.INDEX, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(x.shape[0] // step):
            for j in pl.range(x.shape[1] // step):
                t = pl.load(x, [i * step, j * step], [step, step])
                pl.store(pl.add(t, 1.0), [i * step, j * step], out)
    return out


@pl.program
class AssembleBlocks:
    @pl.function(type=pl.FunctionType.Orchestration)
    def assemble_blocks(self, x: pl.Tensor[[8, 12], pl.FP32], out: pl.Out[pl.Tensor[[8, 12], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(2):
                for j in pl.range(3):
                    t = pl.load(x, [i * 4, j * 4], [4, 4])
                    pl.store(pl.add(t, 1.0), [i * 4, j * 4], out)
        return out


@pl.jit
def flash(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tq = pl.load(q, [0, 0], [8, D])
        m = pl.tile.full([8, 1], dtype=pl.FP32, value=-1e30)
        l = pl.tile.full([8, 1], dtype=pl.FP32, value=0.0)
        o = pl.tile.full([8, D], dtype=pl.FP32, value=0.0)
        tmp = pl.create_tile([8, 32], dtype=pl.FP32)
        for j in pl.range(k.shape[0] // 32):
            s = pl.mul(pl.matmul(tq, pl.transpose(pl.load(k, [j * 32, 0], [32, D]), 0, 1)), D**-0.5)
            top = pl.maximum(m, pl.row_max(s, tmp))
            p = pl.exp(pl.row_expand_sub(s, top))
            alpha = pl.exp(pl.sub(m, top))
            l = pl.add(pl.mul(l, alpha), pl.row_sum(p, tmp))
            o = pl.add(pl.row_expand_mul(o, alpha), pl.matmul(p, pl.load(v, [j * 32, 0], [32, D])))
            m = top
        pl.store(pl.row_expand_div(o, l), [0, 0], out)
    return out


@pl.program
class Flash:
    @pl.function(type=pl.FunctionType.Orchestration)
    def flash(
        self, q: pl.Tensor[[8, 16], pl.FP32], k: pl.Tensor[[96, 16], pl.FP32], v: pl.Tensor[[96, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]
    ):
        with pl.at(level=pl.Level.CORE_GROUP):
            tq = pl.load(q, [0, 0], [8, 16])
            m = pl.tile.full([8, 1], dtype=pl.FP32, value=-1e30)
            l = pl.tile.full([8, 1], dtype=pl.FP32, value=0.0)
            o = pl.tile.full([8, 16], dtype=pl.FP32, value=0.0)
            tmp = pl.create_tile([8, 32], dtype=pl.FP32)
            for j in pl.range(3):
                tk = pl.load(k, [j * 32, 0], [32, 16])
                s = pl.mul(pl.matmul(tq, pl.transpose(tk, 0, 1)), 0.25)
                top = pl.maximum(m, pl.row_max(s, tmp))
                p = pl.exp(pl.row_expand_sub(s, top))
                alpha = pl.exp(pl.sub(m, top))
                l = pl.add(pl.mul(l, alpha), pl.row_sum(p, tmp))
                tv = pl.load(v, [j * 32, 0], [32, 16])
                o = pl.add(pl.row_expand_mul(o, alpha), pl.matmul(p, tv))
                m = top
            pl.store(pl.row_expand_div(o, l), [0, 0], out)
        return out


@pl.jit
def paged_scores(q: pl.Tensor, pool: pl.Tensor, table: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tq = pl.load(q, [0, 0], [4, D])
        for page in pl.range(table.shape[0]):
            block = pl.cast(pl.read(table, [page]), pl.INDEX)
            keys = pl.load(pool, [block * 8, 0], [8, D])
            out = pl.store(pl.matmul(tq, pl.transpose(keys, 0, 1)), [0, page * 8], out)
    return out


@pl.program
class PagedScores:
    @pl.function(type=pl.FunctionType.Orchestration)
    def paged_scores(
        self, q: pl.Tensor[[4, 16], pl.FP32], pool: pl.Tensor[[48, 16], pl.FP32], table: pl.Tensor[[3], pl.INT32], out: pl.Out[pl.Tensor[[4, 24], pl.FP32]]
    ):
        with pl.at(level=pl.Level.CORE_GROUP):
            tq = pl.load(q, [0, 0], [4, 16])
            for page in pl.range(3):
                block = pl.cast(pl.read(table, [page]), pl.INDEX)
                keys = pl.load(pool, [block * 8, 0], [8, 16])
                turned = pl.transpose(keys, 0, 1)
                pl.store(pl.matmul(tq, turned), [0, page * 8], out)
        return out


@pl.jit
def paged_sum(pool: pl.Tensor, table: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.tile.full([8, D], dtype=pl.FP32, value=0.0)
        for page in pl.range(table.shape[0]):
            block = pl.cast(pl.read(table, [page]), pl.INDEX)
            if block >= 0:
                total = pl.add(total, pl.load(pool, [block * 8, 0], [8, D]))
        pl.store(total, [0, 0], out)
    return out


@pl.program
class PagedSum:
    @pl.function(type=pl.FunctionType.Orchestration)
    def paged_sum(self, pool: pl.Tensor[[48, 16], pl.FP32], table: pl.Tensor[[4], pl.INT32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            start = pl.tile.full([8, 16], dtype=pl.FP32, value=0.0)
            for page, (total,) in pl.range(4, init_values=(start,)):
                block = pl.cast(pl.read(table, [page]), pl.INDEX)
                if block >= 0:
                    t = pl.load(pool, [block * 8, 0], [8, 16])
                    next_total = pl.yield_(pl.add(total, t))
                else:
                    next_total = pl.yield_(total)
                result = pl.yield_(next_total)
            pl.store(result, [0, 0], out)
        return out


def np_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = q @ k.T * D**-0.5
    p = np.exp(s - s.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True) @ v


def np_paged_scores(q: np.ndarray, pool: np.ndarray, table: np.ndarray, out: np.ndarray) -> np.ndarray:
    return np.concatenate([q @ pool[b * 8 : b * 8 + 8].T for b in table], 1)


PAIRS = [
    Pair(matmul, Matmul, (f32(16, 32), f32(32, 8)), lambda a, b: a @ b),
    Pair(matmul_acc, MatmulAcc, (f32(16, 48), f32(48, 16)), lambda a, b: a @ b),
    Pair(matmul_bias, MatmulBias, (f32(6, 20), f32(20, 10), f32(1, 10)), lambda a, b, bias: a @ b + bias),
    Pair(linear_relu, LinearRelu, (f32(6, 20), f32(10, 20), f32(1, 10)), lambda x, w, b: np.maximum(x @ w.T + b, 0)),
    Pair(concat, Concat, (f32(8, 16), f32(8, 32)), lambda a, b: np.concatenate([a, b], 1)),
    Pair(assemble_vec, AssembleVec, (f32(8, 16), f32(8, 16)), lambda a, b: np.concatenate([a, b], 1)),
    Pair(assemble_acc_to_mat, AssembleAccToMat, (f32(16, 16), f32(16, 16)), lambda a, b: a @ b),
    Pair(assemble_rows, AssembleRows, (f32(6, 12), np.zeros((6, 12), np.float32)), lambda x, out: x * 2),
    Pair(assemble_blocks, AssembleBlocks, (f32(8, 12), np.zeros((8, 12), np.float32)), lambda x, out: x + 1, scalars={"step": 4}),
    Pair(flash, Flash, (f32(8, 16), f32(96, 16), f32(96, 16)), np_attention),
    Pair(paged_scores, PagedScores, (f32(4, 16), f32(48, 16), np.array([4, 0, 2], np.int32), np.zeros((4, 24), np.float32)), np_paged_scores),
    Pair(paged_sum, PagedSum, (f32(48, 16), np.array([4, -1, 2, 5], np.int32)), lambda pool, table: sum(pool[b * 8 : b * 8 + 8] for b in table if b >= 0)),
]
