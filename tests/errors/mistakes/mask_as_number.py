"""Arithmetic on the packed bits of a comparison."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 16])
        mask = pl.cmps(t, 3.0, cmp_type=4)
        pl.store(pl.mul(t, mask), [0, 0], out)


def mistake() -> object:
    return kernel(X, OUT)
