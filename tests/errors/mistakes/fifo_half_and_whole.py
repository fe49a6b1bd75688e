"""A vector kernel that takes half of one tile and all of the next."""

import numpy as np

import tilejit.language as pl

A = np.arange(256, dtype=np.float32).reshape(16, 16)
OUT = np.full((16, 16), 7, np.float32)


@pl.jit.incore(level=pl.Level.AIC)
def cube(a: pl.Tensor):
    t = pl.load(a, [0, 0], [16, 16])
    pl.tpush_to_aiv(t, split=1)
    pl.tpush_to_aiv(t, split=1)


@pl.jit.incore(level=pl.Level.AIV)
def vector(out: pl.Out[pl.Tensor]):
    x: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aic(split=1)
    out = pl.store(x, [0, 0], out)
    y: pl.Tile[[8, 16], pl.FP32] = pl.tpop_from_aic(split=1)
    out = pl.store(y, [0, 0], out)
    return out


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.cluster():
        cube(a)
        out = vector(out)
    return out


def mistake() -> object:
    return kernel(A, OUT)
