"""A vector that is not valid for every row of the matrix."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 16])
        v = pl.load(x, [0, 0], [8, 1], valid_shape=[4, 1])
        pl.store(pl.row_expand_add(t, v), [0, 0], out)


def mistake() -> object:
    return kernel(X, OUT)
