"""A data type of NumPy where one of the language is meant."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)


@pl.jit
def kernel(a: pl.Tensor):
    return a.astype(np.float64)


def mistake() -> object:
    return kernel(A)
