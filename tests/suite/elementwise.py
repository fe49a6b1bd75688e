"""Elementwise kernels on tensors and tiles, ranks 1 to 5, with broadcasts."""

from __future__ import annotations

import numpy as np

import tilejit.language as pl
from tests.suite.harness import Cases, f32

CASES = Cases()


@CASES(f32(5, 7), f32(1, 7), expected=lambda a, b: a + b)
@pl.jit
def add_row(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a + b
    return out


@CASES(f32(5, 7), expected=np.abs)
@pl.program
class AbsProgram:
    @pl.function
    def main(self, a: pl.Tensor[[5, 7], pl.FP32], out: pl.Out[pl.Tensor[[5, 7], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.abs(pl.load(a, [0, 0], [5, 7])), [0, 0], out)
        return out


@CASES(f32(5, 7), expected=lambda a: -a)
@pl.jit
def returns(a: pl.Tensor):
    return pl.neg(a)
