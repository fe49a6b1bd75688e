"""Compiling without arguments needs full annotations."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, n: pl.INDEX, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(a, n)
    return out


def mistake() -> object:
    return kernel.compile(n=2)
