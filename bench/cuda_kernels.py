"""The kernels of the CUDA suite, as a user writes them, besides those that it shares with the CPU's (suites/kernels.py)."""

from __future__ import annotations

import math

import tilejit.language as pl


@pl.jit
def rmsnorm(x: pl.Tensor, weight: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        wide = pl.cast(x, pl.FP32)
        scale = pl.rsqrt(pl.row_sum(wide * wide) * (1.0 / x.shape[1]) + 1e-6)
        out[:] = pl.cast(pl.col_expand_mul(pl.row_expand_mul(wide, scale), pl.cast(weight, pl.FP32)), pl.BF16, mode="rint")


@pl.jit
def layernorm(x: pl.Tensor, gamma: pl.Tensor, beta: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        wide = pl.cast(x, pl.FP32)
        centred = pl.row_expand_sub(wide, pl.row_sum(wide) * (1.0 / x.shape[1]))
        normal = pl.row_expand_mul(centred, pl.rsqrt(pl.row_sum(centred * centred) * (1.0 / x.shape[1]) + 1e-5))
        out[:] = pl.cast(pl.col_expand_add(pl.col_expand_mul(normal, pl.cast(gamma, pl.FP32)), pl.cast(beta, pl.FP32)), pl.BF16, mode="rint")


@pl.jit
def column_sum(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.col_sum(x)


@pl.jit
def transpose(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.transpose(x, 0, 1)


@pl.jit
def product(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.cast(pl.matmul(a, b), pl.BF16, mode="rint")


@pl.jit
def wide_product(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.matmul(a, b, out_dtype=pl.INT32)


@pl.jit
def narrow_product(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c[:] = pl.cast(pl.matmul(a, b, out_dtype=pl.FP32, b_trans=True), pl.BF16, mode="rint")


@pl.jit
def narrow_tiles(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    m, k = a.shape
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(m // 128):
            for j in pl.parallel(b.shape[0] // 128):
                acc = pl.tile.full([128, 128], dtype=pl.FP32, value=0.0)
                for p in pl.range(k // 64):
                    right = pl.transpose(pl.load(b, [j * 128, p * 64], [128, 64]), 0, 1)
                    acc = pl.matmul_acc(acc, pl.load(a, [i * 128, p * 64], [128, 64]), right)
                pl.store(pl.cast(acc, pl.BF16, mode="rint"), [i * 128, j * 128], c)


@pl.jit
def tiled_product(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    m, k = a.shape
    n = b.shape[1]
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(m // 128):
            for j in pl.parallel(n // 128):
                acc = pl.tile.full([128, 128], dtype=pl.FP32, value=0.0)
                for p in pl.range(k // 64):
                    acc = pl.matmul_acc(acc, pl.load(a, [i * 128, p * 64], [128, 64]), pl.load(b, [p * 64, j * 128], [64, 128]))
                pl.store(pl.cast(acc, pl.BF16, mode="rint"), [i * 128, j * 128], c)


@pl.jit
def linear_gelu(x: pl.Tensor, w: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = pl.col_expand_add(pl.matmul(x, w), pl.cast(bias, pl.FP32))
        out[:] = pl.cast(0.5 * y * (1.0 + pl.erf(y * math.sqrt(0.5))), pl.BF16, mode="rint")
