"""A helper that is annotated for another dtype."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit.incore
def half(x: pl.Tensor[[4, 8], pl.FP16], target: pl.Out[pl.Tensor]):
    target[:] = pl.cast(x, pl.FP32)
    return target


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = half(a, out)
    return out


def mistake() -> object:
    return kernel(A, OUT)
