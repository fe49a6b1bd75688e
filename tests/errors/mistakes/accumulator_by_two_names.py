"""An accumulator is read by another name than the one to whose part a product was added."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        left, right = pl.load(x, [0, 0], [4, 8]), pl.load(x, [0, 0], [8, 16])
        acc = pl.matmul(pl.load(x, [0, 0], [8, 8]), right)
        same = acc
        pl.matmul_acc(acc[0:4, :], left, right)
        pl.store(same, [0, 0], out)


def mistake() -> object:
    return kernel(X, OUT)
