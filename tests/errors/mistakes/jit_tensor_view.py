"""A tensor view where a layout belongs."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor[[4, 8], pl.FP32, pl.TensorView(stride=(8, 1))], out: pl.Out[pl.Tensor]):
    out[:] = a
    return out


def mistake() -> object:
    return kernel(A, OUT)
