"""Arguments whose own code raises: the exception is theirs, with a note of which argument of which kernel was asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import ParserTypeError

pytestmark = pytest.mark.dispatch
X = np.ones((2, 3), np.float32)


class Meta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        raise Mistake


class Asked(metaclass=Meta):
    pass


class Mistake(Exception):
    pass


@pl.jit
def plain(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x + 1.0


@pl.jit
def scaled(x: pl.Tensor, factor: pl.FP32, out: pl.Out[pl.Tensor]):
    out[:] = x * factor


@pl.jit
def reading(x: pl.Tensor, settings: pl.constexpr[Any], out: pl.Out[pl.Tensor]):
    out[:] = x * settings.factor


@pl.jit
def checking(x: pl.Tensor, settings: pl.constexpr[Asked], out: pl.Out[pl.Tensor]):
    out[:] = x * 2.0


@pl.jit
def listed(xs: list[pl.Tensor], out: pl.Out[pl.Tensor]):
    out[:] = xs[0] + 1.0


def failing(name: str, **others: Any) -> Any:
    """An object of a class that has a method which raises."""

    def method(*_args: object, **_kwargs: object) -> object:
        raise Mistake

    return type("Failing", (), {name: method, **others})()


DLPACK = {"__dlpack_device__": lambda self: (1, 0)}
SLOTS = {"__abi_slots__": lambda self: (X,)}


@pytest.mark.parametrize(
    ("kernel", "args", "param"),
    [
        (plain, (failing("__dlpack__", **DLPACK),), "x"),
        (plain, (failing("__dlpack_device__", __dlpack__=None),), "x"),
        (plain, (failing("__getattr__"),), "x"),
        (plain, (failing("__cache_signature__", **SLOTS),), "x"),
        (plain, (failing("__abi_slots__", __cache_signature__=lambda self: 1),), "x"),
        (plain, (X, failing("__getattr__")), "out"),
        (scaled, (X, failing("__getattr__")), "factor"),
        (listed, ([failing("__getattr__")],), "xs"),
        (checking, (X, 3), "settings"),
    ],
)
def test_an_exception_of_an_argument_comes_out_with_a_note_of_where_it_was_passed(kernel: Any, args: tuple[object, ...], param: str) -> None:
    with pytest.raises(Mistake) as caught:
        kernel(*args)
    assert caught.value.__notes__ == [f"while tilejit asked the argument `{param}` of @pl.jit function '{kernel.__name__}' what it is"]


def test_a_compiled_program_says_so_too() -> None:
    with pytest.raises(Mistake) as caught:
        plain.compile(X)(failing("__getattr__"))
    assert caught.value.__notes__ == ["while tilejit asked the argument `x` of `plain` what it is"]


def test_an_argument_that_begins_to_raise_after_some_calls_is_named_then() -> None:
    class Wrapped:
        broken = False

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **how: Any) -> object:
            if self.broken:
                raise Mistake
            return X.__dlpack__(**how)

    value: Any = Wrapped()
    for _ in range(4):
        np.testing.assert_array_equal(np.asarray(plain(value)), X + 1.0)
    value.broken = True
    with pytest.raises(Mistake) as caught:
        plain(value)
    assert [note for note in caught.value.__notes__ if "the argument `x` of" in note]


def test_an_object_that_is_read_while_compiling_is_asked_only_what_the_kernel_asks() -> None:
    with pytest.raises(ParserTypeError, match=r"reading `settings\.factor` failed while compiling: Mistake"):
        reading(X, failing("__getattr__"))


def test_a_note_is_made_once_where_one_exception_is_raised_again_and_again() -> None:
    error = Mistake()

    class Same:
        def __getattr__(self, name: str) -> object:
            raise error

    for _ in range(3):
        with pytest.raises(Mistake):
            plain(Same())
    assert len(error.__notes__) == 1
