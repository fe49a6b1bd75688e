"""Memory words that tell whether a name is still bound to the same object, in CPython 3.11; the native dispatcher compares them.

A dict's version changes with every assignment to any of its names, and module-level code assigns all the time. The
words here belong to one name: the table of the dict, the entry in it, or (for a name that must stay unbound) its length.
Their order matters: a table is compared before anything inside it is read.
"""

from __future__ import annotations

import ctypes
from typing import cast

from tilejit.runtime.memory import word_at

_MA_VERSION, _MA_KEYS, _MA_VALUES = 24, 32, 40  # PyDictObject
_DK_INDEX_BYTES, _DK_KIND, _DK_COUNT, _DK_INDICES = 9, 10, 24, 32  # PyDictKeysObject
_UNICODE_KIND, _GENERAL_KIND = 1, 0

Word = tuple[int, int]
"""Address and present content."""


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


def class_dict(cls: type) -> dict[str, object]:
    """The dict behind a class."""
    address = ctypes.c_void_p.from_address(id(cls) + 264).value
    assert address is not None
    return cast("dict[str, object]", ctypes.cast(address, ctypes.py_object).value)
