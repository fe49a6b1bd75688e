"""Dependencies of blocks without a task id."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
FLAGS = np.ones(4, np.int32)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, flags: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP) as first:
        out[:] = x
    with pl.spmd(2, deps=[first]):
        i = pl.tile.get_block_idx()
        out[i] = x[i]


def mistake() -> object:
    return kernel(X, FLAGS, OUT)
