"""A tile where only tensors go."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.expand_clone(pl.load(x, [0, 0], [1, 16]), pl.load(x, [0, 0], [8, 16]))


def mistake() -> object:
    return kernel(X, OUT)
