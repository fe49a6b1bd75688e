"""A kernel that calls another entry."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def other(x: pl.Tensor, target: pl.Out[pl.Tensor]):
    target[:] = x
    return target


@pl.jit.incore
def inner(x: pl.Tensor, target: pl.Out[pl.Tensor]):
    target = other(x, target)
    return target


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = inner(a, out)
    return out


def mistake() -> object:
    return kernel(A, OUT)
