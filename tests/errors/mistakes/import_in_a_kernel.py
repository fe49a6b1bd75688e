"""An import in a kernel, of which a name is used."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    import math

    out[:] = a * math.pi


def mistake() -> object:
    return kernel(A, OUT)
