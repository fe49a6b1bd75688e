"""Both sides wait for the other."""

import numpy as np

import tilejit.language as pl

A = np.arange(256, dtype=np.float32).reshape(16, 16)
OUT = np.full((16, 16), 7, np.float32)


@pl.jit.incore(level=pl.Level.AIC)
def cube(a: pl.Tensor):
    y: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aiv()
    pl.tpush_to_aiv(y, split=0)


@pl.jit.incore(level=pl.Level.AIV)
def vector(out: pl.Out[pl.Tensor]):
    x: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aic(split=0)
    out = pl.store(x, [0, 0], out)
    pl.tpush_to_aic(x, split=0)
    return out


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.cluster():
        cube(a)
        out = vector(out)
    return out


def mistake() -> object:
    return kernel(A, OUT)
