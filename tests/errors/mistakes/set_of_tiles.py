"""A set of values that exist at run time."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        rows = {a[i : i + 1, :] for i in (0, 1)}
        out[0:1, :] = rows[0]


def mistake() -> object:
    return kernel(A, OUT)
