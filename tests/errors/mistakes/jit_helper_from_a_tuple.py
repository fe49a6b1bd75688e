"""A helper that is picked from a tuple."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit.inline
def doubled(x: pl.Tensor):
    x.bind_dynamic(0, pl.dynamic("M"))
    return x * 2.0


STEPS = (doubled,)


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = STEPS[0](a)


def mistake() -> object:
    return kernel(A, OUT)
