"""Memory words that tell whether a name is still bound to the same object, in CPython 3.11; the native dispatcher compares them.

A dict's version changes with every assignment to any of its names, and module-level code assigns all the time. The
words here belong to one name: the table of the dict, the entry in it, or (for a name that must stay unbound) its length.
Classes have a version each; what else can be replaced in an object are its class and its dict.
Their order matters: a table is compared before anything inside it is read, a pointer before what it points to.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

from tilejit.runtime.call.memory import word_at

_OB_TYPE = 8  # PyObject
_MANAGED_DICT_AT = -24  # before it
_TP_GETATTRO, _TP_FLAGS, _TP_VERSION_TAG = 144, 168, 384  # PyTypeObject
_MANAGED_DICT, _IMMUTABLE_TYPE = 1 << 4, 1 << 8
_MA_VERSION, _MA_KEYS, _MA_VALUES = 24, 32, 40  # PyDictObject
_DK_INDEX_BYTES, _DK_KIND, _DK_COUNT, _DK_INDICES = 9, 10, 24, 32  # PyDictKeysObject
_UNICODE_KIND, _GENERAL_KIND = 1, 0

Word = tuple[int, int]
"""Address and present content."""


class HeldWord(tuple[int, int]):
    """A word that leads to an object, which lives as long as the word is watched: no other can take its address and pass for it."""

    held: object

    def __new__(cls, plain: Word, held: object) -> HeldWord:
        made = super().__new__(cls, plain)
        made.held = held
        return made


def word(address: int) -> Word:
    """A word as it is now."""
    return address, word_at(address)


def dict_word(watched: dict[str, object]) -> Word:
    """The version of a dict: changes whenever the dict does."""
    return word(id(watched) + _MA_VERSION)


def cell_word(cell: object) -> Word:
    """The content of a closure cell."""
    return word(id(cell) + 16)


def binding_words(namespace: dict[str, object], name: str) -> list[Word]:
    """Words that stay the same as long as `name` keeps its binding in `namespace`, or stays unbound."""
    if word_at(id(namespace) + _MA_VALUES) != 0:
        return [dict_word(namespace)]  # values kept apart from the keys: nothing finer is stable
    table = word_at(id(namespace) + _MA_KEYS)
    if name not in namespace:
        return [word(id(namespace) + _MA_KEYS), word(table + _DK_COUNT)]
    entry = _entry(table, name)
    if entry is None:
        return [dict_word(namespace)]
    return [word(id(namespace) + _MA_KEYS), word(entry), word(entry + 8)]


def _entry(table: int, name: str) -> int | None:
    """Address of the (key, value) pair of `name`."""
    kind = ctypes.c_uint8.from_address(table + _DK_KIND).value
    entries = table + _DK_INDICES + (1 << ctypes.c_uint8.from_address(table + _DK_INDEX_BYTES).value)
    if kind not in (_UNICODE_KIND, _GENERAL_KIND):
        return None
    size, key_at = (16, 0) if kind == _UNICODE_KIND else (24, 8)
    for position in range(word_at(table + _DK_COUNT)):
        entry = entries + position * size + key_at
        key = ctypes.c_void_p.from_address(entry).value
        if key is not None and ctypes.cast(key, ctypes.py_object).value == name:
            return entry
    return None


def type_word(value: object) -> Word:
    """The class of an object, which can be replaced."""
    return word(id(value) + _OB_TYPE)


def dict_pointer(value: object, names: dict[str, object]) -> list[Word] | None:
    """Where an object keeps the address of `names`, its `__dict__`, which can be replaced; None where that is not known."""
    cls = type(value)
    managed = word_at(id(cls) + _TP_FLAGS) & _MANAGED_DICT
    if not managed and cls.__dictoffset__ <= 0:
        return None
    found = word(id(value) + (_MANAGED_DICT_AT if managed else cls.__dictoffset__))
    return [found] if found[1] == id(names) else None


def version_words(cls: type) -> list[Word] | None:
    """The version of a class: no two are the same, and it changes with every attribute of it and of its bases. None: it has none."""
    if word_at(id(cls) + _TP_FLAGS) & _IMMUTABLE_TYPE:
        return []
    _type_lookup()(cls, "__get__")  # a class has a version once something was looked up in it
    found = word(id(cls) + _TP_VERSION_TAG)
    return [found] if found[1] & 0xFFFF_FFFF else None


def looks_up_like(cls: type, base: type) -> bool:
    """Whether attributes of instances of `cls` are looked up as `base` does it."""
    return word_at(id(cls) + _TP_GETATTRO) == word_at(id(base) + _TP_GETATTRO)


@cache
def _type_lookup() -> Callable[[type, str], object]:
    lookup = ctypes.pythonapi._PyType_Lookup
    lookup.restype, lookup.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.py_object]
    return lookup
