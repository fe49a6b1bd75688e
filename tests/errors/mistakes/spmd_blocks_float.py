"""A number of blocks that is no integer."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
FLAGS = np.ones(4, np.int32)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, flags: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(2.0):
        out[i] = x[i]


def mistake() -> object:
    return kernel(X, FLAGS, OUT)
