"""Tiles of one shape, valid in different regions."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [4, 8], valid_shape=[2, 8])
        pl.store(pl.div(pl.load(a, [0, 0], [4, 8]), t), [0, 0], out)


def mistake() -> object:
    return kernel(A, OUT)
