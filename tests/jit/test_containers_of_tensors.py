"""Dicts, lists and named tuples with tensors in them: keys that are members of enums, classes that decide themselves what an item is."""

from __future__ import annotations

import enum
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.errors import ArgumentError, ParserTypeError, TilejitError, UnsupportedFeatureError

X = np.full((2, 3), 2, np.float32)
Y = np.full((2, 3), 3, np.float32)


class Part(enum.StrEnum):
    QUERY = "query"
    KEY = "key"


class Axis(enum.IntEnum):
    ROW = 0
    COLUMN = 1


@pl.jit
def by_members(w: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = w[Part.QUERY] + 10.0 * w[Part.KEY]


@pl.jit
def by_loop(w: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = w[Part.KEY] * 0.0
        for part in Part:
            total = total + w[part] * (10.0 if part is Part.KEY else 1.0)
        out[:] = total


@pl.jit
def by_get(w: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = w.get(Part.QUERY) + (10.0 * w[Part.KEY] if Part.KEY in w and Axis.ROW not in w else 0.0)


@pl.jit
def by_number(w: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = w[Axis.ROW] + 10.0 * w[Axis.COLUMN]


@pytest.mark.parametrize("kernel", [by_members, by_loop, by_get])
@pytest.mark.parametrize("keys", [("query", "key"), tuple(Part)])
def test_members_of_an_enum_are_looked_up_by_what_they_say(kernel: Callable[..., np.ndarray[Any, Any]], keys: tuple[str, str]) -> None:
    np.testing.assert_array_equal(kernel(dict(zip(keys, (X, Y), strict=True))), X + 10 * Y)


@pytest.mark.parametrize("keys", [(0, 1), tuple(Axis), (False, True), (0.0, np.int64(1))])
def test_numbers_are_looked_up_as_python_does(keys: tuple[Any, Any]) -> None:
    np.testing.assert_array_equal(by_number(dict(zip(keys, (X, Y), strict=True))), X + 10 * Y)


@pl.jit
def items(w: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = w[Part.KEY] * 0.0
        for part, tensor in w.items():
            total = total + tensor * (10.0 if part is Part.KEY else 1.0)
        out[:] = total


@pl.jit
def keys(w: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = w[Part.KEY] * 0.0
        for part in w:
            total = total + w[part]
        out[:] = total


@pl.jit
def unpacked(w: Any, out: pl.Out[pl.Tensor]):
    first, _second = w
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = w[first]


@pl.jit
def copied(w: Any, out: pl.Out[pl.Tensor]):
    more = {**w, "more": w[Part.KEY]}
    with pl.at(level=pl.Level.CORE_GROUP):
        for part in more:
            out[:] = more[part]


@pl.jit
def values(w: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = w[Part.KEY] * float(len(w))
        for tensor in w.values():
            total = total + tensor
        out[:] = total


def test_a_kernel_gets_no_members_of_an_enum_from_the_keys_of_such_a_dict() -> None:
    members = {Part.QUERY: X, Part.KEY: Y}
    np.testing.assert_array_equal(values(members), X + 3 * Y)
    for kernel in (items, keys, unpacked, copied):
        with pytest.raises(UnsupportedFeatureError, match="of the class Part"):
            kernel(members)
    texts = {"query": X, "key": Y}
    np.testing.assert_array_equal(items(texts), X + Y)  # of these neither is the member
    np.testing.assert_array_equal(keys(texts), X + Y)
    for kernel in (items, keys):
        with pytest.raises(UnsupportedFeatureError):
            kernel(members)


class Scaled(dict[str, Any]):
    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(name) * 2


class Ring(list[Any]):
    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__((index + 1) % len(self))


class Layer(NamedTuple):
    weight: Any
    scale: Any

    def both(self) -> Any:
        return self.weight


class Halved(Layer):
    @property
    def scale(self) -> Any:
        return 0.5


class Named(dict[str, Any]):
    """Adds to a dict, and changes nothing of it."""

    label = "weights"


@pl.jit
def taken(w: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = w["a"] * 1.0


@pl.jit
def first(w: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = w[0] * 1.0


@pl.jit
def field(w: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = w.weight * w.scale


@pytest.mark.parametrize(
    ("kernel", "given", "own"),
    [
        (taken, Scaled(a=X), "__getitem__"),
        (taken, {"a": X, "b": Scaled(a=X)}, "__getitem__"),
        (first, Ring([X, Y]), "__getitem__"),
        (field, Halved(X, 2.0), "scale"),
    ],
)
def test_containers_that_decide_themselves_what_an_item_is_are_refused(kernel: Callable[..., object], given: object, own: str) -> None:
    with pytest.raises(ArgumentError, match=f"whose own `{own}` a kernel would not call"):
        kernel(given)


def test_containers_of_a_class_of_their_own_that_are_like_others_are_taken() -> None:
    for made in (Named(a=X), OrderedDict(a=X), defaultdict(list, a=X)):
        np.testing.assert_array_equal(taken(made), X)
    np.testing.assert_array_equal(field(Layer(X, 2.0)), 2 * X)


ROW = np.int64(1)


@pl.jit
def there(x: pl.Tensor, w: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * (5.0 if ROW in w else 7.0)


@pl.jit
def unhashable(x: pl.Tensor, w: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * (5.0 if w.get([1]) is None else 7.0)


def test_a_dict_is_looked_into_by_hash_as_in_python() -> None:
    np.testing.assert_array_equal(there(X, {(1,): X, (2,): X}), 7 * X)
    np.testing.assert_array_equal(there(X, {1: X}), 5 * X)
    with pytest.raises(ParserTypeError, match="unhashable") as caught:
        unhashable(X, {(1,): X})
    assert isinstance(caught.value, TilejitError) and caught.value.span is not None


class Everything:
    """Answers to every name, and can be called."""

    def __getattr__(self, name: str) -> Any:
        return Everything()

    def __call__(self) -> float:
        return 1.0


class Growing(dict[str, Any]):
    """A name that it does not have becomes a member."""

    def __getattr__(self, name: str) -> Any:
        return self.setdefault(name, Growing())


@pl.jit
def beside(x: pl.Tensor, option: pl.constexpr[object], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0


def test_objects_that_answer_to_every_name_are_no_arrays() -> None:
    options = Growing(a=1)
    for option in (Everything(), options):
        for _ in range(3):
            np.testing.assert_array_equal(beside(X, option), 2 * X)
    assert dict(options) == {"a": 1}, "nobody asks a dict for what it does not have"


def test_containers_without_end_are_refused() -> None:
    endless: list[Any] = [X]
    endless.append(endless)
    deep: Any = 1.0
    for _ in range(3000):
        deep = (deep,)
    for value in (endless, deep):
        with pytest.raises(TilejitError, match=r"without end|too deep"):
            beside(X, value)


class Config:
    a = 1


CONFIG = Config()


@pl.jit.inline
def converted(x: Any, v: Any):
    return pl.cast(x, v)


@pl.jit
def wrongly(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = converted(x, (CONFIG, x))


def test_an_object_in_the_place_of_a_data_type_is_named() -> None:
    with pytest.raises(TilejitError) as caught:
        wrongly(X, np.zeros_like(X))
    assert caught.value.span is not None


@pl.jit
def of_a_list(layers: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = layers[0]["w"] * (3.0 if isinstance(layers, list) else 4.0)


@pl.jit
def of_a_kind(layers: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = layers[0]["w"] * (3.0 if type(layers) is list else 4.0)


@pytest.mark.parametrize("kernel", [of_a_list, of_a_kind], ids=lambda kernel: kernel.definition.name)
@pytest.mark.parametrize("layers", [[{"w": X}], ({"w": X},)], ids=["list", "tuple"])
def test_whether_layers_of_dicts_are_a_list_or_a_tuple_is_refused_as_of_layers(kernel: Any, layers: Any) -> None:
    with pytest.raises(UnsupportedFeatureError, match="runs while compiling, but what is in a dict"):
        kernel(layers)


class Filled(dict[str, Any]):
    filled = False

    def __bool__(self) -> bool:
        return self.filled


class LastFirst(list[Any]):
    def __reversed__(self) -> Any:
        return iter(list(self))


class Added(list[Any]):
    def __add__(self, other: Any) -> Any:
        return list(other)


@pl.jit
def if_filled(w: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        if w:
            out[:] = w["k"] * 2.0
        else:
            out[:] = w["k"] * 1.0


@pl.jit
def last_first(w: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = w[0] * 0.0
        for t in reversed(w):
            y = y * 10.0 + t
        out[:] = y


OWN_WAYS: Any = [(if_filled, Filled(k=X), "__bool__"), (last_first, LastFirst([X]), "__reversed__"), (last_first, Added([X]), "__add__")]


@pytest.mark.parametrize(("kernel", "w", "way"), OWN_WAYS)
def test_containers_that_decide_what_is_done_with_them_are_refused(kernel: Any, w: Any, way: str) -> None:
    with pytest.raises(ArgumentError, match=rf"whose own `{way}` a kernel would not call"):
        kernel(w)
    kind = dict if isinstance(w, dict) else list
    kernel(kind(w))


class Pair(NamedTuple):
    w: Any
    s: Any


class Turned(Pair):
    _fields = ("s", "w")


class Longer(Pair):
    __slots__ = ()

    def __new__(cls, w: Any, s: Any) -> Longer:
        return tuple.__new__(cls, (w, s, 1.0))


@pl.jit
def by_names(p: Any, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = p.w + p.s * 100.0


def test_named_tuples_whose_names_are_of_other_members_are_refused() -> None:
    np.testing.assert_array_equal(by_names(Pair(X, Y)), X + Y * 100)
    for turned, way in ((Turned(X, Y), "s"), (Longer(X, Y), "_fields")):
        with pytest.raises(ArgumentError, match=rf"whose own `{way}` a kernel would not call"):
            by_names(turned)
