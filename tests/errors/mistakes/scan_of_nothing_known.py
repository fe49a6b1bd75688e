"""A scan along a dynamic extent."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)
N = pl.dynamic("N")


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    a.bind_dynamic(1, N)
    out[:] = pl.scan(pl.add, a, axis=1)


def mistake() -> object:
    return kernel(A, OUT)
