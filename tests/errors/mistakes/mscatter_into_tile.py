"""A scatter into a tile instead of a tensor."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
INDEX = np.array([[0, 1], [2, 3]], np.int32)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, index: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [2, 2])
        i = pl.load(index, [0, 0], [2, 2])
        base = pl.load(a, [0, 0], [4, 8])
        pl.store(pl.mscatter(t, i, base), [0, 0], out)


def mistake() -> object:
    return kernel(A, INDEX, OUT)
