"""A list of tensors that has two names grows."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    parts = [a]
    same = parts
    same.append(a * 2.0)
    out[:] = parts[1]


def mistake() -> object:
    return kernel(A, OUT)
