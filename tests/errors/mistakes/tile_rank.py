"""A tile of six dimensions."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tile([1, 1, 1, 1, 8, 16], dtype=pl.FP32)
        pl.store(t, [0, 0], out)


def mistake() -> object:
    return kernel(X, OUT)
