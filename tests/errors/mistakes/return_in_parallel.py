"""return from one of the turns of a parallel loop."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.parallel(4):
        if i > 2:
            return
        out[i : i + 1, :] = a[i : i + 1, :]


def mistake() -> object:
    return kernel(A, OUT)
