"""Concatenation of different row counts."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
B = np.arange(24, dtype=np.float32).reshape(3, 8)
OUT = np.full((4, 16), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.concat(pl.neg(a), pl.neg(b))


def mistake() -> object:
    return kernel(A, B, OUT)
