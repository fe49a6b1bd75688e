"""An operator on the control plane of a strict kernel."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit(strict=True)
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.neg(a)
    return out


def mistake() -> object:
    return kernel(A, OUT)
