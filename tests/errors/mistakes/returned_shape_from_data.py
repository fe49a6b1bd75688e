"""A returned tensor whose extent is read from memory: the caller cannot allocate it."""

import numpy as np

import tilejit.language as pl

N = np.array([3], np.int32)


@pl.jit
def kernel(n: pl.Tensor):
    rows = pl.cast(pl.read(n, [0]), pl.INDEX)
    out = pl.create_tensor([rows, 8], dtype=pl.FP32, init_value=1.0)
    return out


def mistake() -> object:
    return kernel(N)
