"""A pattern that does not divide the columns."""

import numpy as np

import tilejit.language as pl

A = np.arange(24, dtype=np.float32).reshape(4, 6)
OUT = np.full((4, 6), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [4, 6])
        pl.store(pl.tile.gather_mask(t, pl.tile.MaskPattern.P0001), [0, 0], out)


def mistake() -> object:
    return kernel(A, OUT)
