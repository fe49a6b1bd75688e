"""A helper whose default is an array, which a kernel leaves out."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit.inline
def shifted(x: pl.Tensor, by: pl.Tensor = A):
    return x + by


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = shifted(a)


def mistake() -> object:
    return kernel(A, OUT)
