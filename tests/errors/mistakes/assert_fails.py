"""An assertion that the shapes do not fulfil."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    assert a.shape[1] % 16 == 0, f"columns come in sixteens, not {a.shape[1]}"
    out[:] = a


def mistake() -> object:
    return kernel(A, OUT)
