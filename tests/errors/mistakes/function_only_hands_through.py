"""A function that may be a helper, called by itself."""

import numpy as np

import tilejit.language as pl
from tilejit import ir

X = np.arange(128, dtype=np.float32).reshape(8, 16)
N = np.array([0], np.int32)
OUT = np.full((8, 16), 7, np.float32)


@pl.function(type=pl.FunctionType.InCore)
def through(x: pl.Tensor[[8, 16], pl.FP32], o: pl.Out[pl.Tensor[[8, 16], pl.FP32]]) -> pl.Tensor[[8, 16], pl.FP32]:
    return o


def mistake() -> object:
    return ir.compile(through)(X, OUT)
