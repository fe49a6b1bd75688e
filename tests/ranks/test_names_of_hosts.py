"""Which names the text of a host function may use, and what of them its calls and artifacts stand on."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks.engines import on
from tests.ranks.kernels_of_a_module import times
from tilejit.errors import UnsupportedFeatureError
from tilejit.runtime import CompiledProgram

NR = pl.dynamic("NR")
X = np.arange(1, 17, dtype=np.float32).reshape(2, 8)
factor: Any = 2
count = 0


@pl.jit
def by_factor(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]]):
    y[:] = x * factor


@pl.jit.host
def by_factor_or_by_a_hundred(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        try:
            by_factor(x[r], y[r], device=r)
        except Exception:
            times(x[r], y[r], 100, device=r)


def test_a_launch_that_failed_is_tried_again_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "factor", object())  # which no kernel can have
    for _ in range(3):
        np.testing.assert_array_equal(by_factor_or_by_a_hundred(X, config=on(2)), 100 * X)
    monkeypatch.setitem(globals(), "factor", 3)
    np.testing.assert_array_equal(by_factor_or_by_a_hundred(X, config=on(2)), 3 * X)


@pl.jit.host
def by_digits(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]], exponent: pl.Scalar[pl.INT32]):
    for r in pl.range(pld.world_size()):
        times(x[r], y[r], len(str(10**exponent)), device=r)


def test_a_number_without_a_text_by_now_is_none_that_was_written_before() -> None:
    limit = sys.get_int_max_str_digits()
    try:
        for _ in range(2):
            np.testing.assert_array_equal(by_digits(X, exponent=1000, config=on(2)), 1001 * X)
        sys.set_int_max_str_digits(640)
        with pytest.raises(ValueError, match="640 digits"):
            by_digits(X, exponent=1000, config=on(2))
    finally:
        sys.set_int_max_str_digits(limit)


class Told(Exception):
    def __str__(self) -> str:
        return str(count)


def test_classes_that_somebody_put_into_builtins_are_nobodys_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "ToldByAll", Told, raising=False)

    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            times(x[r], y[r], int(str(ToldByAll())), device=r)  # noqa: F821 # pyright: ignore[reportUndefinedVariable]

    for value in (2, 2, 5):
        monkeypatch.setitem(globals(), "count", value)
        np.testing.assert_array_equal(host(X, config=on(2)), value * X)


def test_what_somebody_put_into_builtins_is_stored_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "FOR_ALL", 2, raising=False)

    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            times(x[r], y[r], max(FOR_ALL, 1), device=r)  # noqa: F821 # pyright: ignore[reportUndefinedVariable]

    stored: Any = CompiledProgram.from_dir(host.compile(X, config=on(2)).output_dir)
    monkeypatch.setattr(builtins, "FOR_ALL", 3)
    np.testing.assert_array_equal(stored(X), 2 * X)


def binds_a_global() -> Any:
    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        global count
        count = count + 1
        times(x[0], y[0], count, device=0)

    return host


def binds_a_variable_around() -> Any:
    turns = 0

    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        nonlocal turns
        turns += 1
        times(x[0], y[0], turns, device=0)

    return host


def asks_for_names() -> Any:
    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        times(x[0], y[0], globals()["factor"], device=0)

    return host


def evaluates() -> Any:
    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        times(x[0], y[0], eval("factor"), device=0)

    return host


def executes() -> Any:
    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        exec("global count; count = 9", None)
        times(x[0], y[0], 2, device=0)

    return host


def asks_builtins() -> Any:
    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        times(x[0], y[0], builtins.globals().get("factor", 1), device=0)

    return host


def asks_its_frame() -> Any:
    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        times(x[0], y[0], sys._getframe().f_globals.get("factor", 1), device=0)

    return host


WHERE: list[tuple[Callable[[], Any], str]] = [
    (binds_a_global, "global count"), (binds_a_variable_around, "nonlocal turns"), (asks_for_names, "globals"), (evaluates, "eval"), (executes, "exec"),
    (asks_builtins, "builtins.globals"), (asks_its_frame, "sys._getframe().f_globals"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "place"), WHERE)
def test_what_the_names_of_its_own_would_lose_is_refused_where_it_stands(made: Callable[[], Any], place: str) -> None:
    out = np.full((2, 8), 7, np.float32)
    with pytest.raises(UnsupportedFeatureError, match="names of its own") as caught:
        made()(X, out, config=on(2))
    span = caught.value.span
    assert span is not None and span.text.startswith(place)
    np.testing.assert_array_equal(out, 7)
    assert count == 0


def test_names_that_are_the_texts_own_may_be_bound_and_evaluated() -> None:
    @pl.jit.host
    def host(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
        by = 1

        def doubled() -> None:
            nonlocal by
            by *= 2

        doubled()
        for r in pl.range(pld.world_size()):
            times(x[r], y[r], eval("by + 1", {"by": by}), device=r)

    np.testing.assert_array_equal(host(X, config=on(2)), 3 * X)
