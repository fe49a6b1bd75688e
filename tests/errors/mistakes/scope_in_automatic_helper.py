"""A scope placed by hand in a helper that is one itself, called from a function that is none."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
N = np.array([0], np.int32)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit.inline
def helper(x: pl.Tensor, out: pl.Tensor):
    with pl.scope():
        out[:] = x
    return out


@pl.jit(auto_scope=False)
def kernel(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.scope():
        out = helper(x, out)
    return out


def mistake() -> object:
    return kernel(X, N, OUT)
