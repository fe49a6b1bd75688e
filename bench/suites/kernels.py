"""Kernels that several suites time: elementwise ones and those of rows."""

from __future__ import annotations

import math

import tilejit.language as pl


@pl.jit
def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a + b


@pl.jit
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        out[:] = pl.row_expand_div(e, pl.row_sum(e))


@pl.jit
def gelu_tanh(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = 0.5 * x * (1.0 + pl.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


@pl.jit
def layernorm(x: pl.Tensor, gamma: pl.Tensor, beta: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        centred = pl.row_expand_sub(x, pl.row_sum(x) * (1.0 / x.shape[1]))
        variance = pl.row_sum(centred * centred) * (1.0 / x.shape[1])
        normal = pl.row_expand_mul(centred, pl.rsqrt(variance + 1e-5))
        out[:] = pl.col_expand_add(pl.col_expand_mul(normal, gamma), beta)


@pl.jit
def rmsnorm(x: pl.Tensor, weight: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        scale = pl.rsqrt(pl.row_sum(x * x) * (1.0 / x.shape[1]) + 1e-6)
        out[:] = pl.col_expand_mul(pl.row_expand_mul(x, scale), weight)
