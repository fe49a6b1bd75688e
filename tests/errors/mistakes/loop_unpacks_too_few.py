"""A loop that unpacks members into too few names."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, pairs: tuple, out: pl.Out[pl.Tensor]):
    for i, j in pairs:
        out[i : i + 1, :] = a[j : j + 1, :]


def mistake() -> object:
    return kernel(A, ((0, 1, 2), (1, 2, 3)), OUT)
