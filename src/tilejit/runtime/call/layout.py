"""Whether this interpreter keeps its objects where the native dispatcher looks: a row per version, checked against the running process.

The byte offsets stand where they are used (bindings.py, dispatch.py, the dispatcher's text). Nothing relies on the version alone:
every offset is tried on objects made for it, and an interpreter that answers otherwise takes the Python path.
"""

from __future__ import annotations

import platform
import sys
import types
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import numpy as np

from tilejit.runtime.call import bindings
from tilejit.runtime.call.memory import word_at

VERSIONS = {(3, 11), (3, 12), (3, 13)}
"""CPython versions whose layouts are known; a new one is a row here once the checks below hold for it."""


@cache
def supported() -> bool:
    """Whether the native dispatcher may look into the objects of this interpreter."""
    return (
        sys.implementation.name == "cpython"
        and sys.version_info[:2] in VERSIONS
        and sys.platform == "linux"
        and platform.machine() == "x86_64"
        and not sys.abiflags  # debug and free-threaded builds have larger object headers
        and int(np.__version__.partition(".")[0]) == 2
        and all(check() for check in _CHECKS)
    )


class _Plain:
    """A class like a user's, to try the layouts on."""

    def __init__(self, value: object) -> None:
        self.value = value


def _objects() -> bool:
    thing = _Plain(1.5)
    cell: types.CellType = types.CellType(thing)
    return (
        bindings.type_word(thing)[1] == id(_Plain)
        and bindings.type_flags(_Plain) == _Plain.__flags__
        and bindings.cell_word(cell)[1] == id(thing)
        and bindings.looks_up_like(_Plain, object)
        and not bindings.looks_up_like(type("Other", (), {"__getattribute__": lambda self, name: name}), object)
    )


def _functions() -> bool:
    def asked(a: int = 1, *, b: int = 2) -> int:
        return a + b

    fields: list[object] = [asked.__code__, asked.__defaults__, asked.__kwdefaults__]
    words = bindings.function_words(asked) or []
    cast("dict[str, int]", asked.__kwdefaults__)["b"] = 3
    annotated = bindings.annotation_words(asked) or []
    asked.__annotations__["b"] = bool
    return (
        [found for _, found in words[:3]] == [id(field) for field in fields]
        and _changed(words[3:])
        and bool(annotated)
        and annotated[0][1] == id(asked.__annotations__)
        and _changed(annotated[1:])
    )


def _binding(names: dict[str, object], name: str) -> list[bindings.Word]:
    return bindings.binding_words(names, name) or []


def _dicts() -> bool:
    first, second = object(), object()
    names: dict[str, object] = {"a": first, "b": first}
    version, words, unbound = bindings.dict_words(names), _binding(names, "a"), _binding(names, "c")
    if version is None or words[-1][1] != id(first):
        return False
    names["a"] = second
    if not _changed(version) or not _changed(words) or _changed(unbound):
        return False
    version = bindings.dict_words(names) or []
    del names["b"]
    shorter = _changed(version)
    names["c"] = first
    return shorter and _changed(unbound)


def _emptied() -> bool:
    """A dict that is emptied and filled again, as long as it was."""
    names: dict[str, object] = {"a": 1, "b": 1}
    unbound = _binding(names, "c")
    for name in ("d", "c"):
        names.clear()
        names.update({"a": 1, name: 1})
        if not _changed(unbound):
            return False
    return True


def _instances() -> bool:
    """Values that instances keep apart from the names they share with others of their class."""
    first, second = object(), object()
    one, other = _Plain(first), _Plain(first)
    mine, pointer = _binding(vars(one), "value"), bindings.dict_pointer(one, vars(one))
    other.value = second
    if _changed(mine) or pointer is None or _changed(pointer):
        return False
    one.value = second
    return _changed(mine) and _binding(vars(one), "value")[-1][1] == id(second)


def _attributes() -> bool:
    """What is assigned to an instance and deleted there changes the version of its dict, if that has one; a dict of its own has."""
    shared, own = _Plain(1), _Plain(1)
    own.__dict__ = {"value": 1}
    return bindings.dict_words(vars(own)) is not None and _tells_of_attributes(shared) and _tells_of_attributes(own)


def _tells_of_attributes(thing: Any) -> bool:
    for change in (lambda: setattr(thing, "value", 2), lambda: setattr(thing, "another", 2), lambda: delattr(thing, "value")):
        version = bindings.dict_words(vars(thing))
        change()
        if version is not None and not _changed(version):
            return False
    return True


def _classes() -> bool:
    changing: Any = type("Changing", (), {"member": 1})
    words = bindings.version_words(changing)
    if not words or _changed(words):
        return False
    changing.member = 2
    return _changed(words)


def _arrays() -> bool:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    at, pair = bindings.ARRAY, (VERSIONS, 1)
    return (
        word_at(id(array) + at.DATA) == array.ctypes.data
        and word_at(id(array) + at.RANK) & 0xFFFF_FFFF == array.ndim
        and [word_at(word_at(id(array) + at.EXTENTS) + 8 * axis) for axis in range(2)] == list(array.shape)
        and [word_at(word_at(id(array) + at.STRIDES) + 8 * axis) for axis in range(2)] == list(array.strides)
        and word_at(id(array) + at.DTYPE) == id(array.dtype)
        and word_at(id(array) + at.FLAGS) & 0xFFFF_FFFF == array.flags.num
        and [word_at(id(pair) + at) for at in (bindings.TUPLE.LENGTH, bindings.TUPLE.ITEMS, bindings.TUPLE.ITEMS + 8)] == [2, id(pair[0]), id(pair[1])]
        and word_at(id(1.5) + bindings.FLOAT_VALUE_AT) == 0x3FF8 << 48
    )


def _changed(words: list[bindings.Word]) -> bool:
    return any(word_at(address) != content for address, content in words)


_CHECKS: tuple[Callable[[], bool], ...] = (_objects, _functions, _dicts, _emptied, _instances, _attributes, _classes, _arrays)
