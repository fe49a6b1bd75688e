"""A valid region that turns out too large while the kernel runs."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
N = np.array([20], np.int64)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        rows = pl.cast(pl.read(n, [0]), pl.INDEX)
        pl.store(pl.set_validshape(pl.load(x, [0, 0], [8, 16]), rows, 16), [0, 0], out)


def mistake() -> object:
    return kernel(X, N, OUT)
