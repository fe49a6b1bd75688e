"""A mistake inside a helper shows where the helper was called."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit.inline
def product(x: pl.Tensor, y: pl.Tensor, target: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        target[:] = pl.matmul(x, y)
    return target


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = product(a, a, out)
    return out


def mistake() -> object:
    return kernel(A, OUT)
