"""A tensor in a packed layout that is no whole number of boxes."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor[[8, 16], pl.FP32, pl.MX_A_ZZ], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + 1.0


def mistake() -> object:
    return kernel(X, OUT)
