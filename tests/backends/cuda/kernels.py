"""Kernels that are looked at as plans and run in Triton's interpreter."""

from __future__ import annotations

import tilejit.language as pl

TOKENS = pl.dynamic("TOKENS")


@pl.jit
def weighed(x: pl.Tensor, weight: pl.Tensor, scale: pl.Tensor, out: pl.Out[pl.Tensor]):
    x.bind_dynamic(0, TOKENS)
    out.bind_dynamic(0, TOKENS)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.col_expand_mul(pl.matmul(x, weight, b_trans=True, out_dtype=pl.FP32), pl.reshape(scale, [1, weight.shape[0]]))
