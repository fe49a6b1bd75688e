"""A tile operation on the control plane."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(a, [0, 0], [4, 8])
    pl.store(pl.neg(t), [0, 0], out)
    return out


def mistake() -> object:
    return kernel(A, OUT)
