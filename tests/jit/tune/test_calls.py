"""Calls of tuned kernels: arrays that stand for numbers, and methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.tune.kernels import data
from tilejit.jit.tune.space import Choice


@pytest.mark.parametrize("key", [(), ("x", "n")])
def test_an_array_that_stands_for_a_number_has_the_choice_of_that_number(key: tuple[str, ...]) -> None:
    def larger_is_faster(candidate: Choice, run: Callable[[], object]) -> float:
        run()
        return 1.0 / cast("int", candidate.arguments["rows"])

    @pl.autotune({"rows": [1, 8]}, key=key or None, progress=False, effort="full", timer=larger_is_faster)
    @pl.jit
    def head(x: pl.Tensor, n: int, out: pl.Out[pl.Tensor], rows: int = 1):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(n // rows):
                pl.store(pl.load(x, [i * rows, 0], [rows, 4]) * 2.0, [i * rows, 0], out)

    x = data(64, 4)
    for n in (64, 41, 64, 41):
        out = np.zeros_like(x)
        head(x, np.array(n), out)
        np.testing.assert_allclose(out[:n], 2 * x[:n], rtol=1e-6)
        assert not out[n:].any()


class Scaled:
    factor = 3.0

    @pl.autotune({"rows": [2, 4]}, progress=False, effort="full")
    @pl.jit
    def run(self, x: pl.Tensor, out: pl.Out[pl.Tensor], rows: int = 2):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(x.shape[0] // rows):
                pl.store(pl.load(x, [i * rows, 0], [rows, 4]) * self.factor, [i * rows, 0], out)


def test_a_tuned_method_may_be_called_by_its_class() -> None:
    x, out = data(8, 4), np.empty((8, 4), np.float32)
    Scaled.run(Scaled(), x, out)
    np.testing.assert_allclose(out, 3 * x, rtol=1e-6)
