"""Helpers that kernels of another module use."""

from __future__ import annotations

import tilejit.language as pl

SCALE = 1.0 / 3
SHIFT = 0.125
EPS = 1e-5


@pl.jit.inline
def scaled(x: pl.Tensor):
    return pl.mul(x, SCALE)


@pl.jit.inline
def centred(x: pl.Tensor, mean: pl.Tensor):
    return pl.row_expand_sub(x, mean)


@pl.jit.incore
def moments(x: pl.Tensor, mean: pl.Out[pl.Tensor], var: pl.Out[pl.Tensor]):
    cols = x.shape[1]
    mu = pl.mul(pl.row_sum(x), 1.0 / cols)
    mean[:] = mu
    d = centred(x, mu)
    var[:] = pl.mul(pl.row_sum(pl.mul(d, d)), 1.0 / cols)
    return mean, var


@pl.jit.incore
def standardise(x: pl.Tensor, mean: pl.Tensor, var: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.row_expand_mul(centred(x, mean), pl.rsqrt(pl.add(var, EPS)))
    return out
