"""zip(strict=True) of lists of different lengths."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.jit
def kernel(xs: list, ys: pl.Out[list]):
    for x, y in zip(xs, ys, strict=True):
        y[:] = x


def mistake() -> object:
    return kernel([A, A], [OUT])
