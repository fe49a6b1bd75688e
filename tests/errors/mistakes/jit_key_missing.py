"""A key that the table does not have."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)

TABLE = {"block": 4}


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.load(a, [0, 0], [TABLE["blok"], 8]), [0, 0], out)
    return out


def mistake() -> object:
    return kernel(A, OUT)
