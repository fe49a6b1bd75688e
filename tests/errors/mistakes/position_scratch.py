"""Scratch for positions that is not the operand's size."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
OUT = np.full((8, 1), 7, np.int32)


@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 16])
        tmp = pl.create_tile([8, 8], dtype=pl.FP32)
        pl.store(pl.row_argmax(t, tmp), [0, 0], out)


def mistake() -> object:
    return kernel(X, OUT)
