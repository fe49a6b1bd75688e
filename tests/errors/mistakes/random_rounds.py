"""A generator with a number of rounds that nobody checked."""

import numpy as np

import tilejit.language as pl

OUT = np.full((8, 16), 7, np.uint32)


@pl.jit
def kernel(out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.random(1, 2, 3, 4, 5, 6, [8, 16], rounds=5)


def mistake() -> object:
    return kernel(OUT)
