"""Names of the caller's tensors swapped."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(u: pl.InOut[pl.Tensor], w: pl.InOut[pl.Tensor]):
    for _ in pl.range(3):
        w[:] = u * 2.0
        u, w = w, u


def mistake() -> object:
    return kernel(A.copy(), OUT)
