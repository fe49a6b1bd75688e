"""A tensor where a scalar belongs."""

import numpy as np

import tilejit.language as pl
from tilejit import ir

A = np.arange(32, dtype=np.float32).reshape(4, 8)
OUT = np.full((4, 8), 7, np.float32)


@pl.program
class Negate:
    @pl.function
    def main(self, a: pl.Tensor[[4, 8], pl.FP32], n: pl.Scalar[pl.INT8], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]) -> pl.Tensor[[4, 8], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.mul(a, pl.cast(n, pl.FP32))
        return out


def mistake() -> object:
    return ir.compile(Negate)(A, OUT, A)
