"""A tensor of bytes that starts with a number of more bits."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    start = pl.create_tensor([4, 8], dtype=pl.INT8, init_value=300)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(a, pl.cast(start, pl.FP32))


def mistake() -> object:
    return kernel(A, OUT)
