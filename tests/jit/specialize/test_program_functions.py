"""Module-level `@pl.function`s in kernels: each call runs the function it names, whatever else has that name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import ir

pytestmark = pytest.mark.dispatch
T = pl.Tensor[[4, 8], pl.FP32]
D = pl.dynamic("adds")
zeros = np.zeros((4, 8), np.float32)


def adding(number: float) -> Any:
    """A function called `adds`, as modules may have one each."""

    @pl.function(type=pl.FunctionType.InCore)
    def adds(x: T, out: pl.Out[T]):
        pl.store(pl.add(pl.load(x, [0, 0], [4, 8]), number), [0, 0], out)

    return adds


def adding_more(inner: Any, number: float) -> Any:
    """A function called `outer`, which calls one called `adds`."""

    @pl.function(type=pl.FunctionType.InCore)
    def outer(x: T, out: pl.Out[T]):
        inner(x, out)
        pl.store(pl.add(pl.load(out, [0, 0], [4, 8]), number), [0, 0], out)

    return outer


one, two = adding(1.0), adding(2.0)
eleven, twelve = adding_more(one, 10.0), adding_more(two, 10.0)


def helper() -> Any:
    @pl.jit.incore
    def adds(x: T, out: pl.Out[T]):
        pl.store(pl.add(pl.load(x, [0, 0], [4, 8]), 100.0), [0, 0], out)

    return adds


def maximum() -> Any:
    @pl.function(type=pl.FunctionType.InCore)
    def max(x: T, out: pl.Out[T]):
        pl.store(pl.add(pl.load(x, [0, 0], [4, 8]), 3.0), [0, 0], out)

    return max


hundred, three = helper(), maximum()


@pl.jit
def one_then_two(x: T, o1: pl.Out[T], o2: pl.Out[T]):
    one(x, o1)
    two(x, o2)


@pl.jit
def two_then_one(x: T, o1: pl.Out[T], o2: pl.Out[T]):
    two(x, o1)
    one(x, o2)


@pl.jit
def with_callees(x: T, o1: pl.Out[T], o2: pl.Out[T], o3: pl.Out[T], o4: pl.Out[T]):
    eleven(x, o1)
    twelve(x, o2)
    two(x, o3)
    one(x, o4)


@pl.jit
def beside_a_helper(x: T, o1: pl.Out[T], o2: pl.Out[T]):
    hundred(x, o1)
    one(x, o2)


@pl.jit
def beside_a_local(x: T, adds: pl.Out[T]):
    one(x, adds)


@pl.jit
def beside_a_builtin(x: T, o1: pl.Out[T]):
    three(x, o1)
    with pl.at(level=pl.Level.CORE_GROUP):
        larger = pl.cast(max(pl.tensor.dim(x, 0), 3), pl.FP32)
        pl.store(pl.add(pl.load(o1, [0, 0], [4, 8]), larger), [0, 0], o1)


@pl.jit
def beside_a_symbol(x: pl.Tensor[[D, 8], pl.FP32], y: T, o1: pl.Out[T]):
    one(y, o1)


def entry() -> Any:
    @pl.jit
    def adds(x: T, o1: pl.Out[T]):
        one(x, o1)

    return adds


CASES: list[tuple[Callable[..., Any], int, list[float]]] = [
    (one_then_two, 1, [1, 2]),
    (two_then_one, 1, [2, 1]),
    (with_callees, 1, [11, 12, 2, 1]),
    (beside_a_helper, 1, [100, 1]),
    (beside_a_local, 1, [1]),
    (beside_a_builtin, 1, [7]),
    (beside_a_symbol, 2, [1]),
    (entry(), 1, [1]),
]


@pytest.mark.parametrize(("kernel", "inputs", "expected"), CASES)
def test_each_call_runs_the_function_it_names(kernel: Callable[..., Any], inputs: int, expected: list[float], platform: str) -> None:
    found = kernel(*[zeros] * inputs)
    assert [array[0, 0] for array in (found if isinstance(found, tuple) else (found,))] == expected


def test_the_text_has_both_functions_of_one_name() -> None:
    program = one_then_two.compile(zeros).program
    assert isinstance(program, ir.Program)
    ir.assert_structural_equal(pl.parse(one_then_two.specialized_source(zeros)), program)
