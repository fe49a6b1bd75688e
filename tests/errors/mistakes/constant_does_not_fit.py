"""Filling bytes with a number that needs more bits."""

import numpy as np

import tilejit.language as pl

OUT = np.full((8, 16), 7, np.int8)


@pl.jit
def kernel(out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.full([8, 16], pl.INT8, 300)


def mistake() -> object:
    return kernel(OUT)
