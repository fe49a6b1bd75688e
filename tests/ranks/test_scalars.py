"""Numbers that host functions are given and hand on: what counts as one, and which of them are compiled in."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, cast

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks.engines import on
from tilejit.errors import ArgumentError, ArtifactError
from tilejit.runtime import CompiledProgram

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


class Level(IntEnum):
    HIGH = 4


def known(value: object) -> float:
    """What only a compile can do with an argument."""
    if isinstance(value, tuple):
        return sum(map(known, cast("tuple[object, ...]", value)))
    names: dict[type, float] = {int: 1.0, bool: 2.0, float: 3.0, str: 4.0, type(None): 5.0, Level: 6.0}
    return 10 * names.get(type(value), 7.0) + (float(value) if isinstance(value, int | float) else 0.0)


@pl.jit
def plus_known(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], n: pl.constexpr[Any] = 2):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = x + known(n)


@pl.jit.host
def plus_known_given(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]], n: pl.constexpr):  # pyright: ignore[reportMissingTypeArgument]
    for r in pl.range(pld.world_size()):
        plus_known(x[r], y[r], n, device=r)


def test_what_a_kernel_declares_constexpr_is_compiled_in_as_in_a_call_of_it_alone() -> None:
    for n in (3, 1, True, 1.0, 0, False, "1", None, 4, Level.HIGH, np.int64(4), np.array(4), (1, 2.0), (1, (True, None)), pl.FP32, pl.INT32):
        alone = plus_known(X[0], n=n)
        for _ in range(2):
            np.testing.assert_array_equal(plus_known_given(X, n=n, config=on(2)), [alone, alone])


@pl.jit
def of_rows(x: pl.Tensor[[8, 8], pl.FP32], y: pl.Out[pl.Tensor[[8, 8], pl.FP32]], rows: pl.constexpr[int] = 8):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(8 // rows):
            pl.store(pl.load(x, [i * rows, 0], [rows, 8]) * float(rows), [i * rows, 0], y)


@pl.jit.host
def of_rows_of_ranks(x: pl.Tensor[[NR, 8, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8, 8], pl.FP32]], z: pl.Out[pl.Tensor[[NR, 8, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        of_rows(x[r], y[r], 2 * (r + 1), device=r)
        of_rows(x[r], z[r], device=r)


def test_each_rank_may_have_a_constant_of_its_own() -> None:
    x = np.ones((2, 8, 8), np.float32)
    for _ in range(2):
        y, z = of_rows_of_ranks(x, config=on(2))
        assert (y[:, 0, 0].tolist(), z[:, 7, 7].tolist()) == ([2, 4], [8, 8])
    place = of_rows_of_ranks.compile(x, config=on(2)).output_dir
    y, z = CompiledProgram.from_dir(place)(x)
    assert (y[:, 7, 7].tolist(), z[:, 0, 0].tolist()) == ([2, 4], [8, 8])


def test_a_stored_program_has_the_constants_that_it_was_compiled_for() -> None:
    for n in (3, (1, 2.0), pl.FP32):
        stored = CompiledProgram.from_dir(plus_known_given.compile(X, n=n, config=on(2)).output_dir)
        np.testing.assert_array_equal(stored(X, n=n), [plus_known(X[0], n=n)] * 2)
        with pytest.raises(ArtifactError, match=r"`plus_known` was not compiled for .*n: 5"):
            stored(X, n=5)


def test_what_no_launch_takes_for_a_constant_is_told() -> None:
    with pytest.raises(ArgumentError, match="`n` of `plus_known` is a number, a text, a data type, None or a tuple of these in a launch, got"):
        plus_known_given(X, n={"a": 1}, config=on(2))


HELD = np.array(3)


@pl.jit
def plus_held(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], n: pl.INT32 = HELD):  # type: ignore[assignment]
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = x + pl.cast(n, pl.FP32)


@pl.jit.host
def plus_held_by_ranks(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        plus_held(x[r], y[r], device=r)


def test_a_default_that_is_an_array_is_the_number_that_it_holds_at_the_launch() -> None:
    for number in (3, 3, 9, 9, 3):
        HELD[...] = number
        np.testing.assert_array_equal(plus_held_by_ranks(X, config=on(2)), X + number)
    place = plus_held_by_ranks.compile(X, config=on(2)).output_dir
    np.testing.assert_array_equal(CompiledProgram.from_dir(place)(X), X + 3)


@pl.jit.host
def plus_fast(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        plus_known(x[r], y[r], Level.HIGH, device=r)


def test_a_constant_with_a_class_of_its_own_is_in_no_directory() -> None:
    np.testing.assert_array_equal(plus_fast(X, config=on(2)), [plus_known(X[0], n=Level.HIGH)] * 2)
    with pytest.raises(ArtifactError, match="which no other process has"):
        _ = plus_fast.compile(X, config=on(2)).output_dir
