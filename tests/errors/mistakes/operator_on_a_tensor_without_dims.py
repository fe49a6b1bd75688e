"""An operator on a tensor of one element that has no dims."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
SCALE = np.array(3.0, np.float32)


@pl.jit
def kernel(a: pl.Tensor, scale: pl.Tensor):
    return a * (scale * 2.0)


def mistake() -> object:
    return kernel(A, SCALE)
