"""An order of complex numbers."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.complex64).reshape(4, 8)
OUT = np.full((4, 8), 7, np.complex64)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.where(a > 0.0, a, 0.0)


def mistake() -> object:
    return kernel(A, OUT)
