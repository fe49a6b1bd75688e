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


@pl.jit
def behind_jumps(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    made = [1]
    for i in [2, 3, 4]:
        for _ in [0, 1]:
            made.append(i)
        else:
            continue
            made.append(1000)
        made.append(1000)
    for i in [2, 3, 4]:
        if i == 3:
            break
            made.append(1000)
        made.append(i)
    out[:] = x + float(sum(made))


@pl.jit
def expanded_once(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Of the three inner loops the first is expanded, for it changes a list, and the others are not."""
    with pl.at(level=pl.Level.CORE_GROUP):
        made = [1]
        total = pl.mul(x, 1.0)
        for turn in [3, 1, 2]:
            for i in pl.unroll(4):
                if turn == 3:
                    made.append(7)
                total = total + i
        out[:] = total + float(sum(made))


KERNELS = [(breaking, 9), (continuing, 48), (ended_early, 5), (ended, 117), (behind_jumps, 21), (expanded_once, 47)]


@pytest.mark.parametrize(("kernel", "more"), KERNELS, ids=lambda part: getattr(part, "__name__", ""))
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


def of_turn(number: int) -> dict[str, int]:
    return {"square": number * number}


@pl.jit
def perhaps_rebound(x: pl.Tensor, n: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.mul(x, 1.0)
        for turn in [3, 1, 2]:
            if turn == 3 or n[0, 0] > 5:
                held = of_turn(turn)
            total = total + float(held["square"])
        out[:] = total


def test_an_object_that_only_the_run_knows_is_refused():
    with pytest.raises(errors.UnsupportedFeatureError, match="which one it is here is known only at run time"):
        perhaps_rebound(X, np.ones((1, 1), np.int32))
