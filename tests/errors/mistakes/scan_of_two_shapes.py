"""A scan of arrays of different shapes."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)

@pl.jit.inline
def first(x0, y0, x1, y1):
    return x0, y0


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.scan(first, a, a[:, 0:4], axis=1)[0]


def mistake() -> object:
    return kernel(A, OUT)
