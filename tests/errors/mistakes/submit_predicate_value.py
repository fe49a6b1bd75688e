"""A task that may be skipped, but whose result is no tensor of the caller's."""

import numpy as np

import tilejit.language as pl

X = np.arange(32, dtype=np.float32).reshape(4, 8)
FLAG = np.ones(1, np.int32)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit.incore
def increased(x: pl.Tensor):
    return pl.add(x, 1.0)


@pl.jit
def kernel(x: pl.Tensor, flag: pl.Tensor, out: pl.Out[pl.Tensor]):
    y, _ = pl.submit(increased, x, predicate=flag[0] > 0)
    out[:] = y


def mistake() -> object:
    return kernel(X, FLAG, OUT)
