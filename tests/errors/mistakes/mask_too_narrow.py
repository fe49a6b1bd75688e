"""A mask from memory with too few bits per row."""

import numpy as np

import tilejit.language as pl

U = np.arange(128, dtype=np.uint8).reshape(8, 16)
X = np.arange(128, dtype=np.float32).reshape(8, 16)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(u: pl.Tensor, x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        mask = pl.load(u, [0, 0], [8, 1])
        tmp = pl.create_tile([8, 16], dtype=pl.FP32)
        pl.store(pl.sels(mask, pl.load(x, [0, 0], [8, 16]), tmp, 0.0), [0, 0], out)


def mistake() -> object:
    return kernel(U, X, OUT)
