"""What passes go by before they do something with an object of Python: whether it is an iterator, what calling it would change, whether what it gives is new.

It is asked like all else (`Trace.nature`): no pass looks at the class of an object by itself.
"""

from __future__ import annotations

import array
import bisect
import heapq
import operator
import random
from collections import OrderedDict, deque
from collections.abc import Iterator
from types import BuiltinMethodType, GeneratorType, MethodDescriptorType, MethodType, MethodWrapperType, WrapperDescriptorType
from typing import Any, cast

import numpy as np

from tilejit.runtime.call.bindings import bases_of, own_names

_ALL = frozenset({"*"})
_SEQUENCE = frozenset("append extend insert pop remove clear sort reverse __setitem__ __delitem__ __iadd__ __imul__ __init__".split())
CHANGING: dict[type, frozenset[str]] = {
    list: _SEQUENCE,
    dict: frozenset("pop clear update setdefault popitem move_to_end subtract __setitem__ __delitem__ __ior__ __init__".split()),
    set: frozenset(
        "add discard remove pop clear update difference_update intersection_update symmetric_difference_update "
        "__iand__ __ior__ __isub__ __ixor__ __init__".split()
    ),
    deque: _SEQUENCE | {"appendleft", "extendleft", "popleft", "rotate"},
    bytearray: _SEQUENCE,
    array.array: _SEQUENCE | {"byteswap", "frombytes", "fromlist", "fromfile"},
    np.ndarray: frozenset("sort fill resize put itemset partition setflags setfield __setitem__ __delitem__ __iadd__ __imul__ __isub__ __itruediv__".split()),
    random.Random: _ALL,
    np.random.Generator: _ALL,
    np.random.RandomState: _ALL,
    GeneratorType: frozenset({"send", "throw", "close"}),
}
"""Methods that change what they belong to, by its type and for all that derive from it; random generators change by every one."""
_MAKING: dict[type, frozenset[str]] = {
    list: frozenset({"copy"}),
    dict: frozenset({"copy", "fromkeys"}),
    OrderedDict: frozenset(),
    set: frozenset({"copy", "union", "intersection", "difference", "symmetric_difference"}),
    frozenset: frozenset(),
    str: frozenset({"split", "rsplit", "splitlines"}),
    bytes: frozenset({"split", "rsplit", "splitlines"}),
    np.ndarray: frozenset({"tolist"}),
}
"""Methods that make a list, dict or set which nobody else has, by the exact type they belong to."""
_WRITING: tuple[object, ...] = (operator.setitem, operator.delitem, setattr, delattr)
"""Functions that change whatever they are given first."""
_IN_PLACE: tuple[object, ...] = (
    *(getattr(operator, name) for name in "iadd iand iconcat ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv ixor".split()),
    *(getattr(heapq, name) for name in "heappush heappop heapify heapreplace heappushpop".split()),
    bisect.insort, bisect.insort_left, bisect.insort_right,
    np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis,
)  # fmt: skip
"""Those that change what they are given first if it can be changed in place."""
METHODS = (BuiltinMethodType, MethodType, MethodWrapperType)

ITERATOR, ARRAY, STEPS, MAKES, BLIND = "iterator", "array", "steps", "makes", "blind"
"""It gives one member after the other; it has data of its own, as arrays do; calling it moves an iterator on; what it gives is a list, dict or set that nobody
else has; it gives the same whatever the order of a set."""
WRITES, IN_PLACE, KEPT, ALIKE = "writes", "in place", "kept", "alike"
"""Calling it changes its first argument; it does if that can be changed in place; it is a thing that can; it is a set of integers alone, or of texts."""
Nature = tuple[str, ...]


def nature(value: object) -> Nature:
    """Words from a closed list, in one order; of a method that changes something, the name of the type that it belongs to, after "changes "."""
    return tuple(_words(value))


def changed_kind(told: Nature) -> type | None:
    """The type in `CHANGING` of what calling an object changes."""
    return next((kind for kind in CHANGING if _changes(kind) in told), None)


def _changes(kind: type) -> str:
    return f"changes {kind.__name__}"


def _words(value: object) -> Iterator[str]:
    cls = type(value)
    if any(value is one for one in _WRITING):
        yield WRITES
    elif any(value is one for one in _IN_PLACE) or cls is MethodDescriptorType or cls is WrapperDescriptorType:
        yield from _words_of_function(value)
    elif cls in METHODS:
        yield from _words_of_method(cast("object", cast("Any", value).__self__), cast("str", getattr(value, "__name__", "")), cls is BuiltinMethodType)
    elif cls is set or cls is frozenset:
        if cls is set:
            yield KEPT
            if any(all(type(item) is kind for item in cast("set[object]", value)) for kind in (int, str)):
                yield ALIKE
    else:
        if kind_that_changes(cls) is not None:
            yield KEPT
        yield from (word for word, special in _SPECIAL if any(special in own_names(base) for base in bases_of(cls)))


_SPECIAL = ((ITERATOR, "__next__"), (ARRAY, "__array__"))
"""What a class has that makes its instances such."""


def _words_of_function(function: object) -> Iterator[str]:
    """`list.append` changes lists, as the method of one does."""
    owner = cast("type | None", getattr(function, "__objclass__", None))
    kind = None if owner is None else kind_that_changes(owner)
    if owner is None or (kind is not None and (CHANGING[kind] is _ALL or cast("Any", function).__name__ in CHANGING[kind])):
        yield IN_PLACE


def _words_of_method(owner: object, name: str, is_builtin: bool) -> Iterator[str]:
    kind = kind_that_changes(type(owner))
    if kind is not None and (name in CHANGING[kind] or CHANGING[kind] is _ALL):
        yield _changes(kind)
    if name == "__next__":
        yield STEPS
    if is_builtin and name in _MAKING.get(type(owner), ()):
        yield MAKES
    if is_builtin and type(owner) is set and name != "pop":
        yield BLIND


def kind_that_changes(cls: type) -> type | None:
    """The type in `CHANGING` that a class is, or derives from."""
    return next((kind for kind in CHANGING if kind in bases_of(cls)), None)
