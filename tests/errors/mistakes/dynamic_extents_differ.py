"""Two extents of one symbol that differ in a call."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
B = np.arange(40, dtype=np.float32).reshape(5, 8)
OUT = np.full((4, 8), 7, np.float32)
ROWS = pl.dynamic("ROWS")


@pl.jit
def kernel(a: pl.Tensor[[ROWS, 8], pl.FP32], b: pl.Tensor[[ROWS, 8], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(a, b)
    return out


def mistake() -> object:
    return kernel(A, B, OUT)
