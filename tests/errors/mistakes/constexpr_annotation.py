"""A compile-time parameter declared with a value."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


def make() -> object:
    @pl.jit
    def kernel(a: pl.Tensor, block: pl.constexpr[64], out: pl.Out[pl.Tensor]):
        out[:] = a * float(block)

    return kernel


def mistake() -> object:
    return make()
