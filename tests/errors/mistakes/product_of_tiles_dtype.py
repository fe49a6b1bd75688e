"""A product of tiles asked for a dtype that its accumulator does not have."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
N = np.array([0], np.int32)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 8])
        pl.store(pl.matmul(t, t, out_dtype=pl.FP16), [0, 0], out)


def mistake() -> object:
    return kernel(X, N, OUT)
