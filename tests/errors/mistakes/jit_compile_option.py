"""A compile option passed as if it were an argument."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor[[4, 8], pl.FP32], n: pl.INDEX, out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    out[:] = pl.add(a, n)
    return out


def mistake() -> object:
    return kernel.compile(n=2, dump_passes=True)
