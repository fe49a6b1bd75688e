"""A parameter of a Python function that `**` and the call itself give."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)
OPTIONS = {"by": 2}


def scale(by):
    return float(by)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a * scale(**OPTIONS, by=3)


def mistake() -> object:
    return kernel(A, OUT)
