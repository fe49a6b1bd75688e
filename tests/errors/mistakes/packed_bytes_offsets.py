"""Byte offsets with a sign."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
I = np.arange(128, dtype=np.int32).reshape(8, 16)
OUT = np.full((1, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, i: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.gatherb(pl.load(x, [0, 0], [8, 16]), pl.load(i, [0, 0], [1, 2])), [0, 0], out)


def mistake() -> object:
    return kernel(X, I, OUT)
