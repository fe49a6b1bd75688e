"""A store that would lose imaginary parts."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.complex64).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = a * 2.0


def mistake() -> object:
    return kernel(A, OUT)
