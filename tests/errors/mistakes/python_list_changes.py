"""A kernel changes a list of Python's."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)
SIZES = [4, 1, 3]


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    SIZES.append(2)
    out[:] = a + float(len(SIZES))


def mistake() -> object:
    return kernel(A, OUT)
