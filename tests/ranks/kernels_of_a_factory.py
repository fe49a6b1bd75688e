"""Kernels that one text makes: they have the same origin, and only their places tell them apart."""

from typing import Any

import tilejit.language as pl


def scaled(by: float) -> Any:
    @pl.jit
    def scale(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]]):
        y[:] = x * by

    return scale


class Scaled:
    def __init__(self, by: float) -> None:
        self.by = by

    @pl.jit
    def times(self, x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]]):
        y[:] = x * self.by


twice, thrice = scaled(2.0), scaled(3.0)
two, three = Scaled(2.0), Scaled(3.0)
ALL = [scaled(2.0), scaled(3.0)]


HIDDEN = [[scaled(2.0)]]


def hidden() -> Any:
    return HIDDEN[0][0]
