"""A change of a list that the run decides on."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)
SIZES = [4, 1, 3]


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    first = [1]
    second = [2]
    chosen = first
    if pl.read(a, [0, 1]) > 0.0:
        chosen = second
    chosen.append(3)
    out[:] = a + float(len(first))


def mistake() -> object:
    return kernel(A, OUT)
