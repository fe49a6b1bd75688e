"""Batches that do not broadcast."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
OUT = np.full((8, 4), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.reshape(x, [4, 2, 16])
        b = pl.reshape(x, [2, 16, 4])
        out[:] = pl.reshape(pl.matmul(a, b), [8, 4])


def mistake() -> object:
    return kernel(X, OUT)
