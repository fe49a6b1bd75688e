"""A row expansion wants one value per row."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
B = np.arange(8, dtype=np.float32).reshape(1, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_expand_mul(a, b)


def mistake() -> object:
    return kernel(A, B, OUT)
