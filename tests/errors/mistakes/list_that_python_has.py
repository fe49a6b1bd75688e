"""A list that a function of Python was given changes afterwards."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


class Sizes:
    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes


@pl.jit
def kernel(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    sizes = [1, 2]
    held = Sizes(sizes)
    sizes.append(3)
    out[:] = a + float(len(held.sizes))


def mistake() -> object:
    return kernel(A, OUT)
