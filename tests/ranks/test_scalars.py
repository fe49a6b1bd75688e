"""Numbers that host functions are given and hand on: what counts as one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks.engines import on

NR = pl.dynamic("NR")
THREE = np.array(3)
X = np.ones((2, 8), np.float32)


@pl.jit
def plus(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], i: pl.INT32):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = x + pl.cast(i, pl.FP32)


@pl.jit.host
def plus_given(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]], i: pl.INT32):
    for r in pl.range(pld.world_size()):
        plus(x[r], y[r], i, device=r)


@pl.jit.host
def plus_three(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        plus(x[r], y[r], THREE, device=r)


@pytest.mark.parametrize("number", [3, np.int32(3), np.array(3), np.array(3.0), pytest.param("torch", marks=pytest.mark.torch)])
def test_an_array_without_extents_is_the_number_that_it_holds(number: Any) -> None:
    number = pytest.importorskip("torch").tensor(3) if isinstance(number, str) else number
    for _ in range(2):
        assert plus_given(X, i=number, config=on(2))[:, 0].tolist() == [4, 4]
    assert plus_given.compile(X, i=0, config=on(2))(X, i=number)[:, 0].tolist() == [4, 4]


def test_a_launch_takes_an_array_without_extents_for_the_number_that_it_holds_now() -> None:
    for number in (3, 5):
        THREE[...] = number
        assert plus_three(X, config=on(2))[:, 0].tolist() == [1 + number] * 2
