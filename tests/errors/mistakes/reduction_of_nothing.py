"""The maximum of a region that is empty for certain."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
OUT = np.full((8, 1), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 16], valid_shape=[8, 0])
        tmp = pl.create_tile([8, 16], dtype=pl.FP32)
        pl.store(pl.row_max(t, tmp), [0, 0], out)


def mistake() -> object:
    return kernel(X, OUT)
