"""The names of the module asked of Python inside a kernel."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)
SCALE = 3.0


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a * globals()["SCALE"]


def mistake() -> object:
    return kernel(A, OUT)
