"""An accumulator of FP32 for a product of doubles."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float64).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float64)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.tile.full([4, 4], dtype=pl.FP32, value=0.0)
        t = pl.load(a, [0, 0], [4, 8])
        acc = pl.matmul_acc(acc, t, pl.transpose(t, 0, 1))
        pl.store(acc, [0, 0], out)


def mistake() -> object:
    return kernel(A, OUT)
