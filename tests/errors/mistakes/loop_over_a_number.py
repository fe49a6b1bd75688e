"""A loop over a number."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, n: int, out: pl.Out[pl.Tensor]):
    for i in n:
        out[i : i + 1, :] = a[i : i + 1, :]


def mistake() -> object:
    return kernel(A, 3, OUT)
