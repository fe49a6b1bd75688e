"""A loop that carries one value and yields two."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        start = pl.load(a, [0, 0], [4, 8])
        for _, (acc,) in pl.range(3, init_values=(start,)):
            r, s = pl.yield_(pl.neg(acc), acc)
        pl.store(r, [0, 0], out)


def mistake() -> object:
    return kernel(A, OUT)
