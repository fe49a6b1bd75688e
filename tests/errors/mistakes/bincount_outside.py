"""A number for which there is no bin."""

import numpy as np

import tilejit.language as pl

A = np.array([1, 2, 9, 0], np.int32)
OUT = np.full(4, 7, np.int32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.bincount(a, 4)


def mistake() -> object:
    return kernel(A, OUT)
