"""Arguments of foreign classes: the protocol, the registry, and the helper that checks a class."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tilejit
import tilejit.language as pl
from tilejit.errors import ArgumentError, UncacheableValueError
from tilejit.testing import check_argument_class

pytestmark = pytest.mark.dispatch


@pl.jit
def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = x * 2.0


class Quantity:
    """An array with a unit; kernels of different units must not be shared."""

    def __init__(self, values: np.ndarray, unit: Any) -> None:
        self.values, self.unit = values, unit

    def __cache_signature__(self) -> Any:
        return ("Quantity", self.unit)

    def __abi_slots__(self) -> tuple[object, ...]:
        return (self.values,)


class NoSignature:
    def __abi_slots__(self) -> tuple[object, ...]:
        return (np.ones((2, 3), np.float32),)


class Frame:
    def __init__(self, data: np.ndarray) -> None:
        self.data = data


class Wide(Frame):
    pass


def metres() -> Quantity:
    return Quantity(np.ones((2, 3), np.float32), "m")


def seconds() -> Quantity:
    return Quantity(np.ones((2, 3), np.float32), "s")


def by_address() -> Quantity:
    return Quantity(np.ones((2, 3), np.float32), repr(object()))


_counter = itertools.count()


def counting() -> Quantity:
    return Quantity(np.ones((2, 3), np.float32), next(_counter))


def hashing() -> Quantity:
    return Quantity(np.ones((2, 3), np.float32), hash("unit"))


def test_an_object_with_the_protocol_stands_for_its_array_and_its_signature_is_part_of_the_key(make_kernel: Any) -> None:
    kernel = make_kernel("""
    @pl.jit
    def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = x * 2.0
    """)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for argument in (Quantity(x, "m"), Quantity(x, "s"), x, Quantity(x, "m"), x, Quantity(x, "s")):
        out = np.zeros_like(x)
        kernel(argument, out)
        np.testing.assert_array_equal(out, 2 * x)
    assert len(kernel._cache.asked) == 3


def test_a_registered_class_and_its_subclasses_are_converted() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with pytest.raises(ArgumentError, match="`x` must be a tensor, got Frame") as caught:
        doubled(Frame(x), np.zeros_like(x))
    assert "tilejit.register_argument(Frame, convert)" in str(caught.value)
    assert isinstance(caught.value, TypeError)
    tilejit.register_argument(Frame, lambda frame: frame.data)
    for cls in (Frame, Wide):
        out = np.zeros_like(x)
        doubled(cls(x), out)
        np.testing.assert_array_equal(out, 2 * x)


@pytest.mark.parametrize("cls", [np.ndarray, np.float32, float, object, dict, "torch.Tensor"])
def test_what_kernels_take_as_it_is_cannot_be_registered(cls: Any) -> None:
    """Warm calls would not ask the function."""
    if cls == "torch.Tensor":
        cls = pytest.importorskip("torch").Tensor
    with pytest.raises(ArgumentError, match="as it is") as caught:
        tilejit.register_argument(cls, lambda value: value)
    assert "a class of your own" in str(caught.value)


class Celsius(Quantity):
    """What a parameter is annotated with; plain arrays and numbers are wrapped."""

    def __init__(self, values: Any) -> None:
        super().__init__(values, "°C")


def test_an_annotation_that_is_a_protocol_class_wraps_plain_arguments(make_kernel: Any) -> None:
    kernel = make_kernel(
        """
    @pl.jit
    def doubled(x: Celsius, factor: Celsius, out: pl.Out[pl.Tensor]):
        out[:] = x * factor
    """,
        Celsius=Celsius,
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for _ in range(3):
        for argument in (x, Celsius(x), Quantity(x, "°C")):
            out = np.zeros_like(x)
            kernel(argument, 2.5, out)
            np.testing.assert_array_equal(out, np.float32(2.5) * x)
    assert kernel.cache_info().misses == 1, "equal signatures share a kernel"


def test_a_class_without_a_signature_is_refused() -> None:
    with pytest.raises(ArgumentError, match="`x`: NoSignature has __abi_slots__ but no __cache_signature__"):
        doubled(NoSignature(), np.zeros((2, 3), np.float32))


def test_a_signature_without_a_stable_encoding_is_refused() -> None:
    with pytest.raises(UncacheableValueError):
        doubled(Quantity(np.ones((2, 3), np.float32), object()), np.zeros((2, 3), np.float32))


def test_the_helper_accepts_a_good_class() -> None:
    check_argument_class(metres, seconds)


@pytest.mark.parametrize(
    ("make", "other", "complaint"),
    [
        (metres, metres, "does not tell two objects apart"),
        (by_address, metres, "holds an address"),
        (counting, metres, "made alike have different signatures"),
        (hashing, metres, "differs between processes or hash seeds"),
        (NoSignature, NoSignature, "has no __cache_signature__"),
    ],
)
def test_the_helper_names_what_is_wrong(make: Any, other: Any, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_argument_class(make, other)
