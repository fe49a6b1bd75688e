"""A helper that is annotated for another rank."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit.incore
def flat(x: pl.Tensor[[32], pl.FP32], target: pl.Out[pl.Tensor]):
    target[:] = x
    return target


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = flat(a, out)
    return out


def mistake() -> object:
    return kernel(A, OUT)
