"""A mistake in a helper of a helper shows both call sites."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit.inline
def inner(x: pl.Tensor, target: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.load(x, [0, 0], [5, 8]), [0, 0], target)
    return target


@pl.jit.inline
def outer(x: pl.Tensor, target: pl.Tensor):
    target = inner(x, target)
    return target


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = outer(a, out)
    return out


def mistake() -> object:
    return kernel(A, OUT)
