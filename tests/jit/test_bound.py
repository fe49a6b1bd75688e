"""Kernels of a class, bound to its objects: every object has its own, whatever it was copied from."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest

import tilejit.language as pl
from tilejit import pto
from tilejit.errors import StaleCaptureError

pytestmark = pytest.mark.dispatch
X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PLATFORM", "cpu")


class Layer:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    @pl.jit
    def scaled(self, x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * self.factor


@dataclass(frozen=True)
class Frozen:
    factor: float

    @pl.jit
    def scaled(self, x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * self.factor


@dataclass(slots=True)
class Slots:
    factor: float

    @pl.jit
    def scaled(self, x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * self.factor


@dataclass(slots=True, weakref_slot=True)
class WeakSlots:
    factor: float

    @pl.jit
    def scaled(self, x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * self.factor


class OnlyDict:
    """Has attributes, but cannot be referred to weakly."""

    __slots__ = ("__dict__",)

    def __init__(self, factor: float) -> None:
        self.factor = factor

    @pl.jit
    def scaled(self, x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * self.factor


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def check(layer: Any, factor: float, times: int = 3) -> None:
    """In place and returned; often enough that the warm ways are taken."""
    for _ in range(times):
        out = np.full_like(X, np.nan)
        layer.scaled(X, out)
        np.testing.assert_array_equal(out, X * np.float32(factor))
        np.testing.assert_array_equal(layer.scaled(X), X * np.float32(factor))


@pytest.mark.parametrize("fast", ["1", "0"], ids=["native", "python"])
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("make", [Layer, Frozen, Slots, WeakSlots, OnlyDict])
def test_a_copy_reads_itself(make: Callable[[float], Any], duplicate: Callable[[Any], Any], fast: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", fast)
    first = make(2.0)
    check(first, 2.0)
    second = duplicate(first)
    if make is Frozen:
        second = replace(second, factor=5.0)
    else:
        second.factor = 5.0
    check(second, 5.0)
    check(first, 2.0)
    check(duplicate(second), 5.0)


@pytest.mark.parametrize("make", [Layer, Frozen, Slots, WeakSlots, OnlyDict])
def test_objects_of_a_class_share_what_is_compiled(make: Callable[[float], Any]) -> None:
    first, second = make(3.0), make(3.0)
    check(first, 3.0)
    before = first.scaled.cache_info().misses
    check(second, 3.0)
    check(copy.copy(second), 3.0)
    assert second.scaled._cache is first.scaled._cache and second.scaled.cache_info().misses == before


def test_a_kernel_is_bound_once_where_the_object_has_a_place_for_it() -> None:
    layer = Layer(2.0)
    assert layer.scaled is layer.scaled and copy.copy(layer).scaled is not layer.scaled
    slots = Slots(2.0)
    kernel = slots.scaled
    check(slots, 2.0)
    for _ in range(4):
        np.testing.assert_array_equal(kernel(X), X * 2)
    slots.factor = 4.0
    with pytest.raises(StaleCaptureError, match=r"self\.factor"):
        kernel(X)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickled])
def test_a_bound_kernel_is_copied_with_its_object(duplicate: Callable[[Any], Any]) -> None:
    layer: Any = Layer(2.0)
    layer.run = layer.scaled
    check(layer, 2.0)
    other = duplicate(layer)
    other.factor = 5.0
    np.testing.assert_array_equal(other.run(X), X * 5)
    np.testing.assert_array_equal(duplicate(layer.scaled)(X), X * 2)
    np.testing.assert_array_equal(layer.run(X), X * 2)


@pytest.mark.parametrize("make", [Layer, WeakSlots])
def test_neither_kernels_nor_copies_that_were_called_keep_an_object_alive(make: Callable[[float], Any]) -> None:
    first = make(2.0)
    check(first, 2.0)
    second = copy.copy(first)
    check(second, 2.0)
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None


def test_clearing_the_cache_of_a_class_reaches_every_bound_kernel() -> None:
    first, second = Layer(2.0), Layer(3.0)
    check(first, 2.0)
    check(second, 3.0)
    second.scaled._cache.clear()
    before = first.scaled.cache_info().misses
    check(first, 2.0)
    assert first.scaled.cache_info().misses > before


def test_binding_at_every_access_leaves_nothing_behind() -> None:
    slots = Slots(2.0)
    check(slots, 2.0, times=40)
    gc.collect()
    kernel = slots.scaled
    assert len(kernel._cache._listeners) == 1
    assert kernel._bound_as is not None and len(kernel._bound_as[0]._bound_ones) == 1


_Private__added = 5.0


class _Private:
    __factor = 3.0

    @pl.jit.inline
    def __plus(self, t: pl.Tensor, *, __more: float = 2.0):
        return t + __added + __more  # type: ignore[name-defined]  # noqa: F821 (of the module, under its whole name)

    @pl.jit
    def kernel(self, x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            __scaled = x * self.__factor
            out[:] = self.__plus(__scaled)


def test_private_names_are_those_of_the_class(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python's compiler has them: attributes, helpers, parameters, locals and globals; on disk too."""
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path))
    found = _Private()
    np.testing.assert_array_equal(found.kernel(X), X * 3 + 7)
    found.kernel.cache_clear()
    np.testing.assert_array_equal(found.kernel(X), X * 3 + 7)
    assert found.kernel.cache_info().loaded == 1
    found._Private__factor = 4.0  # type: ignore[attr-defined]
    with pytest.raises(StaleCaptureError, match="_Private__factor"):
        found.kernel(X)


def factory(amount: float) -> Any:
    @pl.jit
    def plus(x: pl.Tensor):
        with pl.at(level=pl.Level.CORE_GROUP):
            y = x + amount
        return y

    return plus


def bare(x: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = x + 5.0
    return y


decorated = pl.jit(bare)


def scaled(x: pl.Tensor, factor: float = 1.0):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = x * factor
    return y


tuned = pl.autotune({"factor": [1.0, 2.0]})(pl.jit(scaled))


@pto.jit(source="nowhere.pto")
def source() -> None: ...


@pytest.mark.parametrize("kernel", [factory(2.0), decorated, tuned, source], ids=["factory", "decorated", "tuned", "source"])
def test_a_copy_of_a_kernel_is_the_kernel(kernel: Any) -> None:
    assert copy.copy(kernel) is kernel and copy.deepcopy(kernel) is kernel
    assert copy.deepcopy({"model": [kernel]})["model"][0] is kernel


def test_a_pickle_names_the_kernel_itself_or_is_refused() -> None:
    assert pickled(decorated) is decorated and pickled(tuned) is tuned  # under the name they have, not that of their function
    for lost in (factory(2.0), pl.jit(bare)):
        with pytest.raises(pickle.PicklingError, match="not the same object"):
            pickle.dumps(lost)
    layer: Any = Layer(2.0)
    strange = decorated._bound(layer, "x")
    with pytest.raises(pickle.PicklingError, match="under no name"):
        pickle.dumps(strange)


class Renamed:
    """A kernel under another name than its function's."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    other = Layer.scaled


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickled])
def test_a_bound_kernel_is_found_under_the_name_that_its_class_has_for_it(duplicate: Callable[[Any], Any]) -> None:
    np.testing.assert_array_equal(duplicate(Renamed(3.0).other)(X), X * 3)


class Scaling:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    @pl.jit.inline
    def scaled(self, x: pl.Tensor):
        return x * self.factor

    @pl.jit
    def kernel(self, x: pl.Tensor):
        return Scaling.scaled(self, x)


class Shifting(Scaling):
    @pl.jit.inline
    def scaled(self, x: pl.Tensor):
        return super().scaled(x) + 1.0

    @pl.jit
    def both(self, x: pl.Tensor):
        return self.scaled(x) + Scaling.scaled(self, x) * 10.0


def test_kernels_of_a_class_are_called_with_an_object_as_methods_are() -> None:
    x, kernel, both = np.ones((1, 2), np.float32), cast("Any", Scaling.kernel), cast("Any", Shifting.both)
    for factor in (2.0, 3.0):
        for _ in range(2):
            assert kernel(Scaling(factor), x)[0, 0] == factor
            assert kernel(self=Shifting(factor), x=x)[0, 0] == factor
            assert both(Shifting(factor), x)[0, 0] == Shifting(factor).both(x)[0, 0] == factor * 11 + 1


_SHIFT = 1.0


class Drifting:
    @pl.jit
    def shifted(self, x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x + _SHIFT


def test_clearing_the_kernel_of_a_class_clears_those_of_its_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Drifting(), Drifting()
    for shift in (1.0, 2.0, 3.0):
        monkeypatch.setitem(globals(), "_SHIFT", shift)
        for made in (one, other, one, other) if shift > 1.0 else ():
            with pytest.raises(StaleCaptureError):
                made.shifted(X)
        Drifting.shifted.cache_clear()
        for made in (one, other) * 3:
            np.testing.assert_array_equal(made.shifted(X), X + shift)


class Tripled(Layer):
    @pl.jit
    def scaled(self, x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * (3.0 * self.factor)

    @property
    def of_the_base(self) -> Any:
        return super().scaled


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
def test_a_duplicate_of_a_kernel_that_is_overridden_is_that_one(duplicate: Any) -> None:
    layer: Any = Tripled(2.0)
    np.testing.assert_array_equal(duplicate(layer.of_the_base)(X), 2 * X)
    np.testing.assert_array_equal(duplicate(layer.scaled)(X), 6 * X)
