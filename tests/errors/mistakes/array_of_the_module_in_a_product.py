"""A product with an array that is no argument of the kernel."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
WEIGHTS = np.arange(16, dtype=np.float32).reshape(8, 2)


@pl.jit
def kernel(a: pl.Tensor):
    return a @ WEIGHTS


def mistake() -> object:
    return kernel(A)
