"""An output that overlaps an input."""

import numpy as np

import tilejit.language as pl

BOTH = np.arange(40, dtype=np.float32).reshape(5, 8)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.neg(a)
    return out


def mistake() -> object:
    return kernel(BOTH[0:4], BOTH[1:5])
