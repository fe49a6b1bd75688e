"""Tiles of different shapes cannot be divided."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
B = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ta = pl.load(a, [0, 0], [4, 8])
        tb = pl.load(b, [0, 0], [1, 8])
        pl.store(pl.div(ta, tb), [0, 0], out)


def mistake() -> object:
    return kernel(A, B, OUT)
