"""A long axis written with a step that does not divide it."""

import numpy as np

import tilejit.language as pl

A = np.arange(500, dtype=np.float32)
OUT = np.full(1499, 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[::3] = a


def mistake() -> object:
    return kernel(A, OUT)
