"""A property of a named tuple with tensors in it."""

from typing import NamedTuple

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


class Pair(NamedTuple):
    left: np.ndarray
    right: np.ndarray

    @property
    def total(self):
        return self.left + self.right


@pl.jit
def kernel(pair: Pair, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pair.total


def mistake() -> object:
    return kernel(Pair(A, A), OUT)
