"""A returned tensor whose computed extent is less than nothing in this call."""

import numpy as np

import tilejit.language as pl

M = pl.dynamic("M")
X = np.ones((2, 8), np.float32)


@pl.jit
def kernel(x: pl.Tensor[[M, 8], pl.FP32]):
    out = pl.create_tensor([x.shape[0] - 4, 8], dtype=pl.FP32, init_value=1.0)
    return out


def mistake() -> object:
    return kernel(X)
