"""A submitted call that lacks an input."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
FLAGS = np.ones(4, np.int32)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit.incore
def plus(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(a, b)
    return out


@pl.jit
def kernel(x: pl.Tensor, flags: pl.Tensor, out: pl.Out[pl.Tensor]):
    _, _ = pl.submit(plus, x)


def mistake() -> object:
    return kernel(X, FLAGS, OUT)
