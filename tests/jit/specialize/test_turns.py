"""Loops that are expanded while compiling: `break`, `continue` and `else` mean what they mean in Python, whatever stands around the loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import errors
from tilejit.jit.function import JITFunction

X = np.random.default_rng(3).random((2, 3), np.float32)


def squared(number: int) -> int:
    return number * number


@pl.jit
def breaking(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.mul(x, 1.0)
        for _ in pl.range(3):
            for i in pl.unroll(4):
                if squared(i) > 3:
                    break
                total = total + float(squared(i) + 1)
        out[:] = total


@pl.jit
def continuing(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.mul(x, 1.0)
        for _ in pl.range(3):
            for i in pl.unroll(4):
                if squared(i) == 1:
                    continue
                total = total + float(squared(i) + 1)
        out[:] = total


@pl.jit
def ended_early(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    made = [1]
    for i in pl.unroll(1, 9, 2):
        if i == 5:
            break
        made.append(i)
    else:
        made.append(100)
    out[:] = x + float(sum(made))


@pl.jit
def ended(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    made = [1]
    for i in pl.unroll(1, 9, 2):
        if i == 6:
            break
        made.append(i)
    else:
        made.append(100)
    out[:] = x + float(sum(made))


@pytest.mark.parametrize(("kernel", "more"), [(breaking, 9), (continuing, 48), (ended_early, 5), (ended, 117)], ids=lambda part: getattr(part, "__name__", ""))
def test_jumps_in_an_expanded_loop_are_its_own(kernel: JITFunction, more: int):
    np.testing.assert_allclose(kernel(X), X + more, rtol=1e-6)


@pl.jit
def undecided(x: pl.Tensor, n: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.mul(x, 1.0)
        for _ in pl.range(3):
            for i in pl.unroll(4):
                if n[0, 0] > i:
                    break
                total = total + float(squared(i))
        out[:] = total


def test_a_jump_that_only_the_run_decides_is_refused():
    with pytest.raises(errors.UnsupportedFeatureError, match="expanded while compiling, under a condition known only at run time"):
        undecided(X, np.ones((1, 1), np.int32))
