"""NumPy arrays and torch tensors in one call that has to allocate its output."""

import numpy as np
import torch

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
B = torch.full((4, 8), 7.0)


@pl.jit
def kernel(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(a, b)
    return out


def mistake() -> object:
    return kernel(A, B)
