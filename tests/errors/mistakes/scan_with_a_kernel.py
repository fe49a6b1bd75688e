"""A scan with a kernel that is not inline."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit.incore
def added(x: pl.Tensor, y: pl.Tensor, z: pl.Out[pl.Tensor]):
    z[:] = x + y


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.scan(added, a, axis=1)


def mistake() -> object:
    return kernel(A, OUT)
