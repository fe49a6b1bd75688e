"""The angle of integers."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.int32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.int32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.atan2(a, a)


def mistake() -> object:
    return kernel(A, OUT)
