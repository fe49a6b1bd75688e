"""Indices of the wrong width."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
INDEX = np.zeros((4, 8), np.int16)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, index: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.gather(a, dim=0, index=index)


def mistake() -> object:
    return kernel(A, INDEX, OUT)
