"""A function that exists for FP32 only."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float16).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float16)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.sin(a)


def mistake() -> object:
    return kernel(A, OUT)
