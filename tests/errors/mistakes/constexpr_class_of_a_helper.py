"""A compile-time argument of another class than the helper declares."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit.inline
def scaled(x, block: pl.constexpr[int]):
    return x * float(block)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = scaled(a, "64")


def mistake() -> object:
    return kernel(A, OUT)
