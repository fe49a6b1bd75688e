"""A page that the table does not have."""

import numpy as np

import tilejit.language as pl

POOL = np.zeros((16, 8), np.float32)
INDEX = np.array([0, 5, 9, 1], np.int32)
TABLE = np.array([1, 3], np.int32)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(pool: pl.Tensor, index: pl.Tensor, table: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.paged_gather(pool, index, table, 4, 8, 4)


def mistake() -> object:
    return kernel(POOL, INDEX, TABLE, OUT)
