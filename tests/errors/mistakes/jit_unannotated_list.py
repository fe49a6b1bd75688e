"""A parameter without annotation given a list."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a, out: pl.Out[pl.Tensor]):
    out[:] = a
    return out


def mistake() -> object:
    return kernel([1.0, 2.0], OUT)
