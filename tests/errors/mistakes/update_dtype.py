"""Rows of another dtype put into a tensor."""

import numpy as np

import tilejit.language as pl

I = np.arange(128, dtype=np.int32).reshape(8, 16)
H = np.arange(128, dtype=np.float16).reshape(8, 16)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(i: pl.Tensor, h: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.scatter_update(out, -2, pl.reshape(i[0, 0:8], [1, 8]), h)


def mistake() -> object:
    return kernel(I, H, OUT)
