"""One call of a host function has one value of what it and its kernels read, for all ranks, whatever is bound meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks.engines import on
from tests.ranks.kernels_of_a_module import times
from tilejit.errors import StaleCaptureError

NR = pl.dynamic("NR")
X = np.arange(24, dtype=np.float32)
weight = 2


def set_weight(value: int) -> None:
    """What another thread may do at any time."""
    global weight
    weight = value


@pytest.mark.parametrize("policy", ["recompile", "raise", "ignore"])
def test_what_a_kernel_reads_is_the_same_for_ranks_with_other_shapes(policy: str) -> None:
    def weighted(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        y[:] = x * float(weight)

    kernel = pl.jit(on_drift=policy)(weighted)

    @pl.jit.host
    def uneven(x: pl.Tensor[[24], pl.FP32], y: pl.Out[pl.Tensor[[24], pl.FP32]], last: int):
        set_weight(2)
        kernel(x[0:8], y[0:8], device=0)
        set_weight(last)
        kernel(x[8:24], y[8:24], device=1)

    np.testing.assert_array_equal(uneven(X, last=2, config=on(2)), 2 * X)
    if policy == "ignore":
        np.testing.assert_array_equal(uneven(X, last=3, config=on(2)), 2 * X)
        return
    for _ in range(2):  # all programs are known from the first time on
        with pytest.raises(StaleCaptureError, match="weighted"):
            uneven(X, last=3, config=on(2))
    np.testing.assert_array_equal(uneven(X, last=2, config=on(2)), 2 * X)


@pl.jit.host
def inner(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], rank: pl.Scalar[pl.INT32]):
    times(x, y, weight, device=rank)


def test_a_name_is_read_once_for_all_texts_of_a_call() -> None:
    held = 2

    def set_both(value: int) -> None:
        nonlocal held
        held = value
        set_weight(value)

    @pl.jit.host
    def enclosed(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], rank: pl.Scalar[pl.INT32]):
        times(x, y, held, device=rank)

    @pl.jit.host
    def outer(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            inner(x[r], y[r], r)
            set_both(3)

    @pl.jit.host
    def outer_enclosed(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            enclosed(x[r], y[r], r)
            set_both(3)

    x = X.reshape(3, 8)
    for host in (outer, outer_enclosed):
        for first in (2, 5):
            set_both(first)
            np.testing.assert_array_equal(host(x, config=on(3)), first * x)


def test_functions_in_functions_of_a_text_see_its_names() -> None:
    set_weight(4)

    @pl.jit.host
    def deep(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        read = lambda: (lambda: (lambda: weight)())()  # noqa: E731
        for r in pl.range(pld.world_size()):
            times(x[r], y[r], read(), device=r)

    x = X.reshape(3, 8)
    np.testing.assert_array_equal(deep(x, config=on(3)), 4 * x)


class Unit(float):
    """A number that does not say which it is."""

    def __repr__(self) -> str:
        return "a unit"


ONE, TWO = Unit(1), Unit(2)


def test_constants_that_look_alike_are_told_apart() -> None:
    @pl.jit
    def scaled(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], by: float = 1.0):
        y[:] = x * by

    @pl.jit.host
    def both(x: pl.Tensor[[2, 8], pl.FP32], y: pl.Out[pl.Tensor[[2, 8], pl.FP32]]):
        scaled(x[0], y[0], ONE, device=0)
        scaled(x[1], y[1], TWO, device=1)

    x = X[:16].reshape(2, 8)
    for _ in range(2):
        np.testing.assert_array_equal(both(x, config=on(2)), x * np.array([[1], [2]], np.float32))


@pl.jit
def times_a_constant(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], by: float):
    y[:] = x * by


WEIGHTS = np.array([2.0, 3.0, -0.0, 0.0])


@pytest.mark.parametrize("made", [np.float64, lambda value: Unit(float(value)), float, np.float32])
def test_constants_that_live_no_longer_than_their_launch_are_told_apart(made: Callable[[object], float]) -> None:
    @pl.jit.host
    def each(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            times_a_constant(x[r], y[r], made(WEIGHTS[r]), device=r)

    x = np.ones((4, 8), np.float32)
    for _ in range(3):
        found = each(x, config=on(4))[:, 0]
        np.testing.assert_array_equal(found, WEIGHTS)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(WEIGHTS))


def test_a_compiled_host_function_tells_such_constants_apart() -> None:
    @pl.jit.host
    def each(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            times_a_constant(x[r], y[r], WEIGHTS[r], device=r)

    x = np.ones((2, 8), np.float32)
    compiled = each.compile(x, config=on(2))
    for _ in range(3):
        np.testing.assert_array_equal(compiled(x)[:, 0], [2, 3])
