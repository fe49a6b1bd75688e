"""A list that each turn of a loop binds to a longer one."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows = []
    for i in pl.range(2):
        rows = [*rows, a[i] * 2.0]
    out[:] = a + rows[0]


def mistake() -> object:
    return kernel(A, OUT)
