"""A name that is an object of Python on one way of the run only."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)
SIZES = [4, 1, 3]


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    sizes = (1, 2)
    if pl.read(a, [0, 1]) > 0.0:
        sizes = SIZES
    out[:] = a + float(sizes[0])


def mistake() -> object:
    return kernel(A, OUT)
