"""A rounding mode for a scalar."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
OUT = np.full((8, 16), 7, np.int32)


@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.write(out, [0, 0], pl.cast(pl.read(x, [0, 0]), pl.INT32, mode="floor"))


def mistake() -> object:
    return kernel(X, OUT)
