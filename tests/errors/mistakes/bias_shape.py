"""A bias with the rows of the product instead of its columns."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a, b = pl.load(x, [0, 0], [8, 8]), pl.load(x, [0, 0], [8, 16])
        pl.store(pl.matmul_bias(a, b, pl.load(x, [0, 0], [8, 1])), [0, 0], out)


def mistake() -> object:
    return kernel(X, OUT)
