"""Host functions that are methods, and those whose annotations are in quotes: what they stand for is that of each call."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks.engines import on
from tests.ranks.test_replays import NR, rows, times
from tilejit.errors import ArtifactError


class Model:
    """Whose attributes are spelled like some that a text may read of arrays and of the language."""

    def __init__(self) -> None:
        self.value = self.max = 2

    @pl.jit.host
    def run(self, x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            times(x[r], y[r], self.value + 10 * self.max, device=r)


def test_a_method_reads_its_object_in_each_call() -> None:
    model, x = Model(), rows(0)
    compiled = model.run.compile(x, np.empty((2, 8), np.float32), config=on(2))
    for value, most in ((2, 2), (2, 2), (3, 2), (3, 4), (3, 4)):
        model.value, model.max = value, most
        for run in (model.run, functools.partial(Model.run, model), compiled):
            y = np.empty((2, 8), np.float32)
            run(x, y, config=on(2))
            np.testing.assert_array_equal(y, x * (value + 10 * most))
    with pytest.raises(ArtifactError, match="`self` of `run` is a Model, which no other process has"):
        str(compiled)


MODEL = Model()
forward = MODEL.run


@pl.jit.host
def by_a_method(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
    forward(x, y)


def test_a_method_that_another_host_function_calls_reads_its_object_too() -> None:
    x = rows(1)
    for value in (2, 2, 5):
        MODEL.value, MODEL.max = value, 1
        y = np.empty((2, 8), np.float32)
        by_a_method(x, y, config=on(2))
        np.testing.assert_array_equal(y, x * (value + 10))


COUNT = 4


@pl.jit.host
def as_many(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, COUNT, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        for i in pl.range(y.shape[1]):
            times(x[r], y[r, i], 2, device=r)


def test_annotations_in_quotes_are_what_they_stand_for_in_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    x = rows(2)
    for count in (4, 4, 6, 6, 4):
        monkeypatch.setattr(f"{__name__}.COUNT", count)
        np.testing.assert_array_equal(as_many(x, config=on(2)), np.stack([2 * x] * count, 1))


class Small:
    """An object without a place for what belongs to it."""

    __slots__ = ("weight",)

    def __init__(self, weight: float) -> None:
        self.weight = weight

    @pl.jit
    def weighted(self, x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]]):
        y[:] = x * self.weight


ONE, OTHER = Small(2.0), Small(3.0)


@pl.jit.host
def both(x: pl.Tensor[[2, 8], pl.FP32], y: pl.Out[pl.Tensor[[2, 8], pl.FP32]]):
    ONE.weighted(x[0], y[0], device=0)
    OTHER.weighted(x[1], y[1], device=1)


def test_kernels_of_objects_without_a_place_for_them_are_found_in_what_was_compiled() -> None:
    x = rows(2)
    np.testing.assert_array_equal(both.compile(x, config=on(2))(x), x * np.array([[2], [3]], np.float32))
