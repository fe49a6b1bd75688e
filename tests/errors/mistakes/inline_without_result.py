"""A helper without return used as a value."""

import numpy as np

import tilejit.language as pl

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


def mistake() -> object:
    @pl.inline
    def fill(x, target):
        target[:] = pl.neg(x)

    @pl.program
    class Wrong:
        @pl.function
        def main(self, a: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
            with pl.at(level=pl.Level.CORE_GROUP):
                t = fill(a, out)
                out[:] = pl.abs(t)

    return Wrong
