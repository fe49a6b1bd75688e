"""A product of tiles of two precisions."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float64).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float64)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [4, 8])
        u = pl.cast(pl.transpose(t, 0, 1), pl.FP32)
        pl.store(pl.matmul(t, u), [0, 0], out)


def mistake() -> object:
    return kernel(A, OUT)
