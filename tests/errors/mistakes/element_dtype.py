"""An element of another dtype."""

import numpy as np

import tilejit.language as pl

I = np.arange(128, dtype=np.int32).reshape(8, 16)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(i: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.write(out, [0, 0], pl.read(i, [0, 0]))


def mistake() -> object:
    return kernel(I, OUT)
