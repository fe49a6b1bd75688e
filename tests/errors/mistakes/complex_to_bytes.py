"""Complex numbers as other numbers in a tile."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.complex64).reshape(4, 8)
OUT = np.full((4, 8), 7, np.int64)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [4, 8])
        pl.store(pl.reinterpret_view(t, pl.INT64), [0, 0], out)


def mistake() -> object:
    return kernel(A, OUT)
