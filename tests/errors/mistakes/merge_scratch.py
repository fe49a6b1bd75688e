"""Merging tiles without room for the result."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
OUT = np.full((1, 32), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.load(x, [0, 0], [1, 16])
        tmp = pl.create_tile([1, 16], dtype=pl.FP32)
        pl.store(pl.mrgsort(a, a, tmp=tmp), [0, 0], out)


def mistake() -> object:
    return kernel(X, OUT)
