"""More indices than there is room for."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
I = np.arange(128, dtype=np.int32).reshape(8, 16)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, i: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.paged_gather(x, i, i[0], 2, 16, 8)


def mistake() -> object:
    return kernel(X, I, OUT)
