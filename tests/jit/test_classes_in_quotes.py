"""Classes that annotations in quotes name are those of now: a cell of a notebook that runs again, or a module that is loaded again, writes new ones."""

from __future__ import annotations

import enum
import types
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl

X = np.full((1, 2), 8, np.float32)


def image_of(by: int) -> type:
    """A class as a cell of a notebook writes it each time: the same name in the same place."""

    class Image:
        def __init__(self, px: Any) -> None:
            self.px = px

        def __cache_signature__(self) -> tuple[str, ...]:
            return ("Image",)

        def __abi_slots__(self) -> tuple[object, ...]:
            return (self.px / by,)

    return Image


def modes_of(*values: int) -> Any:
    return enum.Enum("Mode", {f"M{value}": value for value in values})


Image: Any = image_of(2)
CLASSES: Any = {}
FIRST: Any = 0
shapes: Any = types.ModuleType("shapes")
Mode: Any = modes_of(1)


def write_image(by: int) -> type:
    globals()["Image"] = CLASSES[FIRST] = shapes.Image = image_of(by)
    return shapes.Image


def by_name(x: Image, out: pl.Out[pl.Tensor]):
    out[:] = x * 1.0


def of_a_module(x: shapes.Image, out: pl.Out[pl.Tensor]):
    out[:] = x * 1.0


def of_a_container(x: CLASSES[FIRST], out: pl.Out[pl.Tensor]):
    out[:] = x * 1.0


@pytest.mark.dispatch
@pytest.mark.parametrize("policy", ["raise", "recompile"])
@pytest.mark.parametrize("function", [by_name, of_a_module, of_a_container])
def test_plain_arguments_are_given_to_the_class_that_there_is(function: Any, policy: str) -> None:
    kernel = pl.jit(on_drift=policy)(function)
    for by in (2, 4, 2, 8):
        image = write_image(by)
        assert [float(kernel(value)[0, 0]) for value in (X, X, X, image(X), X)] == [8 / by] * 5


def made_each_time(x: image_of(2), out: pl.Out[pl.Tensor]):
    out[:] = x * 1.0


def test_a_class_that_each_look_makes_anew_is_no_other_one() -> None:
    kernel = pl.jit(made_each_time)
    assert [float(kernel(X)[0, 0]) for _ in range(3)] == [4, 4, 4]


@pl.jit.inline
def times(x: pl.Tensor, mode: pl.constexpr[Mode]):
    return x * mode.value


def of_the_kernel(x: pl.Tensor, mode: pl.constexpr[Mode], out: pl.Out[pl.Tensor]):
    out[:] = x * mode.value


def of_a_helper(x: pl.Tensor, mode: pl.constexpr[enum.Enum], out: pl.Out[pl.Tensor]):
    out[:] = times(x, mode)


@pytest.mark.dispatch
@pytest.mark.parametrize("policy", ["raise", "recompile"])
@pytest.mark.parametrize("function", [of_the_kernel, of_a_helper])
def test_compile_time_arguments_are_of_the_class_that_there_is(function: Any, policy: str) -> None:
    global Mode
    kernel = pl.jit(on_drift=policy)(function)
    for values in ((1,), (1, 3), (3,)):
        Mode = modes_of(*values)
        for mode in (*Mode, *Mode):
            np.testing.assert_array_equal(kernel(X, mode), X * mode.value)
