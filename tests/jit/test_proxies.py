"""Objects that say they are something else (`__class__`), or do not say what they are: proxies of libraries, mocks. What counts is what they do."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import RunConfig
from tilejit.errors import ArgumentError, ParserTypeError
from tilejit.types.annotations import Untracked

X = np.arange(18, dtype=np.float32).reshape(2, 9)
more = 5.0


def one() -> float:
    return 1.0


class Around:
    """What decorators of libraries put around a function, or a lazy object around a value."""

    def __init__(self, inner: object) -> None:
        object.__setattr__(self, "inner", inner)

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(object.__getattribute__(self, "inner"))

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "inner"), name)

    def __call__(self) -> float:
        return object.__getattribute__(self, "inner")() + more


def says(kind: type) -> object:
    """An object that says it is of this class, and has only `k`."""

    def k(_: object) -> float:
        return more

    return type("Says", (), {"__class__": property(lambda _: kind), "k": property(k), "__getitem__": lambda self, _: k(self), "__call__": k})()


class Unbound:
    """A proxy of something that is not there now, but for what it has itself."""

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError("outside of a request")

    @property
    def k(self) -> float:
        return more

    def __getitem__(self, _: object) -> float:
        return more

    def __call__(self) -> float:
        return more


helper: Any = Around(one)
odd: Any = None


@pl.jit(on_drift="recompile")
def by_helper(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + helper()


def through() -> float:
    return odd.k


@pl.jit(on_drift="recompile")
def by_attribute(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + odd.k + odd[0] + odd() + through()


def test_what_is_called_is_the_proxy_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (5.0, 5.0, 5.0, 7.0, 7.0, 5.0):
        monkeypatch.setitem(globals(), "more", value)
        np.testing.assert_array_equal(by_helper(X), X + (1.0 + value))


@pytest.mark.parametrize("made", [lambda kind=kind: says(kind) for kind in (int, list, FunctionType, ModuleType, Untracked, np.ndarray)] + [Unbound])
def test_what_an_object_says_it_is_counts_for_nothing(made: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "odd", made())
    by_attribute.cache_clear()
    for value in (5.0, 5.0, 5.0, 7.0, 7.0, 5.0):
        monkeypatch.setitem(globals(), "more", value)
        np.testing.assert_array_equal(by_attribute(X), X + 4 * value)


def test_an_object_whose_dict_cannot_be_asked_for_is_asked_for_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> object:
        raise RuntimeError("closed")

    held = type("Closed", (type(says(int)),), {"__dict__": property(refuse)})()
    monkeypatch.setitem(globals(), "odd", held)
    by_attribute.cache_clear()
    for _ in range(4):
        np.testing.assert_array_equal(by_attribute(X), X + 4 * more)


@pl.jit
def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + x


@pytest.mark.parametrize("platform", ["cpu", "reference"])
def test_a_proxy_of_an_array_stands_for_its_memory(platform: str) -> None:
    config = RunConfig(platform=platform)
    for _ in range(3):
        out = np.zeros_like(X)
        np.testing.assert_array_equal(np.asarray(doubled(Around(X), config=config)), 2 * X)
        doubled(X, Around(out), config=config)
        np.testing.assert_array_equal(out, 2 * X)


def test_what_only_says_that_it_is_an_array_is_refused() -> None:
    for given in (says(np.ndarray), Mock(spec=X), Mock(spec=X, shape=(2, 9), dtype=X.dtype, ndim=2, strides=(36, 4), flags=X.flags)):
        with pytest.raises(ArgumentError, match="`x` must be"):
            doubled(given)


@pytest.mark.torch
def test_what_only_says_that_it_is_a_tensor_is_refused() -> None:
    import torch

    for given in (says(torch.Tensor), Mock(spec=torch.Tensor)):
        with pytest.raises(ArgumentError, match="`x` must be"):
            doubled(given)


def test_extents_and_data_types_that_only_say_so_are_refused_where_they_are_written() -> None:
    for rows, dtype in ((Around(2), pl.FP32), (2, Around(pl.FP32))):
        with pytest.raises(ParserTypeError, match=r"an extent of pl\.Tensor is an integer|pl\.Tensor takes a data type"):
            pl.Tensor[[rows, 9], dtype]  # type: ignore[index]
