"""Classes that compile-time parameters of kernels and helpers name: what is given must be of them, now and at every later call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import ArgumentError, StaleCaptureError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_compile_time_parameter_takes_its_class_only() -> None:
    @pl.jit
    def blocked(x: pl.Tensor, block: pl.constexpr[int], out: pl.Out[pl.Tensor]):
        out[:] = x * float(block)

    with pytest.raises(ArgumentError, match="`block` is a compile-time int, got str"):
        blocked(X, "8")


def _helper(kind: Any) -> Any:
    @pl.jit.inline
    def chosen(x, way: pl.constexpr[kind]):  # type: ignore[no-untyped-def]
        return x + float(len(way))

    return chosen


CHOSEN = _helper(str)
WAYS: Any = "ab"


@pl.jit(on_drift="recompile")
def choosing(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = CHOSEN(x, WAYS)


@pytest.mark.parametrize("fast", ["1", "0"])
@pytest.mark.parametrize("ways", ["ab", [1, 2]])
def test_of_what_class_a_helper_wants_its_compile_time_argument_is_part_of_the_key(ways: object, fast: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", fast)
    monkeypatch.setitem(globals(), "WAYS", ways)
    for kind in (type(ways), int | type(ways)):
        monkeypatch.setitem(globals(), "CHOSEN", _helper(kind))
        choosing.cache_clear()
        for _ in range(3):
            np.testing.assert_array_equal(choosing(X), X + 2)
            choosing._cache.clear()  # so that the disk is asked, too
        monkeypatch.setitem(globals(), "CHOSEN", _helper(dict))
        for _ in range(2):
            with pytest.raises(ArgumentError, match="`way` of `chosen` is a compile-time dict"):
                choosing(X)


class Lengthy:
    def __len__(self) -> int:
        return 2


class Other:
    def __len__(self) -> int:
        return 2


@pytest.mark.parametrize("fast", ["1", "0"])
@pytest.mark.parametrize("wanted", [Lengthy, Lengthy | int])
def test_an_object_for_a_helper_is_of_the_class_that_the_helper_names(wanted: Any, fast: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", fast)
    monkeypatch.setitem(globals(), "CHOSEN", _helper(wanted))
    choosing.cache_clear()

    class Longer(Lengthy):
        pass

    for way in (Lengthy(), Longer()):
        monkeypatch.setitem(globals(), "WAYS", way)
        for _ in range(3):
            np.testing.assert_array_equal(choosing(X), X + 2)
    Longer.__bases__ = (Other,)
    for way in (WAYS, Other()):  # after warm calls, and at first
        monkeypatch.setitem(globals(), "WAYS", way)
        for _ in range(2):
            with pytest.raises(ArgumentError, match="`way` of `chosen` is a compile-time Lengthy"):
                choosing(X)
            choosing._cache.clear()  # so that the disk is asked, too


@pytest.mark.parametrize("fast", ["1", "0"])
def test_a_metaclass_that_comes_to_have_a_say_in_what_its_instances_are_is_noticed(fast: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", fast)

    class Meta(type):
        pass

    class Wide(Lengthy, metaclass=Meta):
        pass

    class Wider(Wide):
        pass

    monkeypatch.setitem(globals(), "CHOSEN", _helper(Wide))
    monkeypatch.setitem(globals(), "WAYS", Wider())
    choosing.cache_clear()
    for _ in range(3):
        np.testing.assert_array_equal(choosing(X), X + 2)
    Meta.__instancecheck__ = lambda cls, instance: False  # type: ignore[method-assign,assignment]
    with pytest.raises((ArgumentError, StaleCaptureError)):
        choosing(X)


class Taking(type):
    takes = True

    def __instancecheck__(cls, value: object) -> bool:
        return Taking.takes


class Named(metaclass=Taking):
    pass


@pl.jit
def steadfast(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = CHOSEN(x, "ab")


@pytest.mark.parametrize("fast", ["1", "0"])
@pytest.mark.parametrize("ways", ["ab", (1, 2)])
def test_what_a_class_takes_numbers_and_texts_for_is_asked(ways: object, fast: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", fast)
    monkeypatch.setattr(Taking, "takes", True)
    monkeypatch.setitem(globals(), "CHOSEN", _helper(Named | int))
    monkeypatch.setitem(globals(), "WAYS", ways)
    choosing.cache_clear()
    steadfast.cache_clear()
    np.testing.assert_array_equal(steadfast(X), X + 2)
    for Taking.takes in (True, False, True, False):
        for _ in range(4):
            if Taking.takes:
                np.testing.assert_array_equal(choosing(X), X + 2)
            else:
                with pytest.raises(ArgumentError, match="`way` of `chosen` is a compile-time Named or int"):
                    choosing(X)
        choosing._cache.clear()  # so that the disk is asked, too
    with pytest.raises(StaleCaptureError, match=r"`way='ab'`.* changed from True to False"):
        steadfast(X)


@pl.jit
def numbered(x: pl.Tensor, n: pl.constexpr[Named], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * float(n)  # pyright: ignore[reportArgumentType]


@pytest.mark.filterwarnings("ignore::tilejit.errors.TilejitWarning")  # an annotation with such a class is asked at each call
@pytest.mark.parametrize("fast", ["1", "0"])
@pytest.mark.parametrize("number", [3, np.float32(3)])
def test_what_a_class_takes_arguments_of_the_kernel_for_is_asked(number: Any, fast: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", fast)
    monkeypatch.setattr(Taking, "takes", True)
    numbered.cache_clear()
    for Taking.takes in (True, False, True, False):
        for _ in range(4):
            if Taking.takes:
                np.testing.assert_array_equal(numbered(X, number), X * 3)
            else:
                with pytest.raises(ArgumentError, match="`n` is a compile-time Named"):
                    numbered(X, number)
