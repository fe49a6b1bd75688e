"""One argument more than the helper has."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit.incore
def scale(x: pl.Tensor, factor: pl.FP32, target: pl.Out[pl.Tensor]):
    target[:] = pl.mul(x, factor)
    return target


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = scale(a, 2.0, out, out)
    return out


def mistake() -> object:
    return kernel(A, OUT)
