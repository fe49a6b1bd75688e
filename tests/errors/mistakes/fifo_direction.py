"""A pipe that was opened the other way round."""

import numpy as np

import tilejit.language as pl

A = np.arange(256, dtype=np.float32).reshape(16, 16)
OUT = np.full((16, 16), 7, np.float32)


@pl.jit.incore(level=pl.Level.AIC)
def cube(a: pl.Tensor):
    pl.aic_initialize_pipe(dir_mask=2, slot_size=1024)
    t = pl.load(a, [0, 0], [16, 16])
    pl.tpush_to_aiv(t, split=0)


@pl.jit.incore(level=pl.Level.AIV)
def vector(out: pl.Out[pl.Tensor]):
    x: pl.Tile[[16, 16], pl.FP32] = pl.tpop_from_aic(split=0)
    out = pl.store(x, [0, 0], out)
    return out


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.cluster():
        cube(a)
        out = vector(out)
    return out


def mistake() -> object:
    return kernel(A, OUT)
