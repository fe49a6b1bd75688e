"""The result of a helper that has none, in the second of two calls with other shapes."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit.inline
def raised(x):
    x += 1.0


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = a * 2.0
    raised(t)
    half = raised(t[0:2])
    out[:] = t + half


def mistake() -> object:
    return kernel(A, OUT)
