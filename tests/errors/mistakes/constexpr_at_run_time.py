"""A helper's compile-time parameter given the counter of a loop."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit.inline
def scaled(x, factor: pl.constexpr[int]):
    return x * float(factor)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(4):
            out[i : i + 1, :] = scaled(a[i : i + 1, :], i)


def mistake() -> object:
    return kernel(A, OUT)
