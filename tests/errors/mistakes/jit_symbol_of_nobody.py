"""A symbol that no parameter carries."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)

M = pl.dynamic("M")


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    tmp = pl.create_tensor([M, 8], dtype=pl.FP32)
    tmp[:] = a
    out[:] = tmp
    return out


def mistake() -> object:
    return kernel(A, OUT)
