"""A row that is not there."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
INDEX = np.array([[0, 4]], np.int32)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, index: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.load(index, [0, 0], [1, 2])
        pl.store(pl.mgather(a, i), [0, 0], out)


def mistake() -> object:
    return kernel(A, INDEX, OUT)
