"""A fraction for an integer of the helper."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit.incore
def rows(x: pl.Tensor, count: pl.INDEX, target: pl.Out[pl.Tensor]):
    pl.store(pl.load(x, [0, 0], [count, 8]), [0, 0], target)
    return target


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = rows(a, 2.5, out)
    return out


def mistake() -> object:
    return kernel(A, OUT)
