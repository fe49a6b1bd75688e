"""A valid region that turns out larger than the window it is written into."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
N = np.array([0], np.int32)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:8, 0:4] = pl.slice(x, [8, 16], [0, 0], valid_shape=[8, n[0] + 5])


def mistake() -> object:
    return kernel(X, N, OUT)
