"""A tensor that has not the extent that its annotation computes."""

import numpy as np

import tilejit.language as pl
from tilejit import ir

X = np.arange(128, dtype=np.float32).reshape(8, 16)
N = np.array([0], np.int32)
OUT = np.full((8, 16), 7, np.float32)


M = pl.dynamic("M")


@pl.function
def kernel(x: pl.Tensor[[M, 16], pl.FP32], out: pl.Out[pl.Tensor[[M * 2, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:M] = x


def mistake() -> object:
    return ir.compile(kernel)(X, OUT)
