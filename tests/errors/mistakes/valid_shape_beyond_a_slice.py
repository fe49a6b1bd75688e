"""A valid region larger than the slice it is set on."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
N = np.array([0], np.int32)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:4] = pl.fillpad(pl.set_validshape(x[0:4], 5, 16))


def mistake() -> object:
    return kernel(X, N, OUT)
