"""A tensor in a packed layout is written."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
OUT = np.full((8, 16), 7, np.float32)


def make() -> object:
    @pl.function
    def kernel(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32, pl.MX_A_ZZ]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x

    return kernel


def mistake() -> object:
    return make()
