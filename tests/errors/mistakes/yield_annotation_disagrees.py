"""A yielded value that is not what its name is annotated with."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
N = np.array([0], np.int32)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        if n[0] > 0:
            k: pl.Scalar[pl.INDEX] = pl.yield_(2.5)
        else:
            k: pl.Scalar[pl.INDEX] = pl.yield_(2)
        out[:] = x + pl.cast(k, pl.FP32)


def mistake() -> object:
    return kernel(X, N, OUT)
