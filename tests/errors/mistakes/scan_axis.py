"""A scan along an axis that is not there."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.scan(pl.add, a, axis=2)


def mistake() -> object:
    return kernel(A, OUT)
