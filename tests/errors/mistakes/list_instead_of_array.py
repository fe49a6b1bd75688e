"""A list where an array belongs."""

import numpy as np

import tilejit.language as pl

OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.neg(a)
    return out


def mistake() -> object:
    return kernel([[1.0, 2.0]], OUT)
