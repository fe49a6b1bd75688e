"""Consecutive numbers in two rows."""

import numpy as np

import tilejit.language as pl

OUT = np.full((8, 16), 7, np.int32)


@pl.jit
def kernel(out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.tile.ci(0, [2, 16]), [0, 0], out)


def mistake() -> object:
    return kernel(OUT)
