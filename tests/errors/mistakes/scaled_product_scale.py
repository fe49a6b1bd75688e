"""Scales for another block size."""

import numpy as np

import tilejit.language as pl

A = np.zeros((4, 64), np.float32)
S = np.ones((4, 4), np.float32)
OUT = np.full((4, 4), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, s: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.cast(pl.load(a, [0, 0], [4, 64]), pl.FP8E4M3FN)
        scale = pl.cast(pl.load(s, [0, 0], [4, 4]), pl.FP8E8M0)
        right = pl.transpose(t, 0, 1)
        pl.store(pl.matmul_mx(t, scale, right, pl.transpose(scale, 0, 1)), [0, 0], out)


def mistake() -> object:
    return kernel(A, S, OUT)
