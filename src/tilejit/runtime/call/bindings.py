"""Memory words that tell whether a name is still bound to the same object; the native dispatcher compares them.

A dict's version changes with every assignment to any of its names, and module-level code assigns all the time. The
words here belong to one name: the table of the dict, the entry in it, or (for a name that must stay unbound) the version of
the names in the table, which the interpreter keeps for its own lookups.
Classes have a version each; what else can be replaced in an object are its class and its dict.
The layouts are those of CPython 3.11 to 3.13; layout.py checks each of them against the running interpreter.
Their order matters: a table is compared before anything inside it is read, a pointer before what it points to.
"""

from __future__ import annotations

import ctypes
import enum
import sys
import types
from collections.abc import Callable, Mapping
from functools import cache

from tilejit.runtime.call.memory import word_at

_OB_TYPE = 8  # PyObject
_MANAGED_DICT_AT = -24  # before it
_TP_GETATTRO, _TP_FLAGS, _TP_VERSION_TAG = 144, 168, 384  # PyTypeObject
MANAGED_DICT, IMMUTABLE_TYPE = 1 << 4, 1 << 8
_MA_VERSION, _MA_KEYS, _MA_VALUES = 24, 32, 40  # PyDictObject
_DK_SHAPE, _DK_INDEX_BYTES, _DK_KIND, _DK_COUNT, _DK_INDICES = 8, 9, 10, 24, 32  # PyDictKeysObject; the version of its names is in the word of its shape
_UNICODE_KIND, _SPLIT_KIND = 1, 2
_ENTRY_SIZE = 16
_SPLIT_VALUES_AT = 8 if sys.version_info >= (3, 13) else 0
"""Where the values of a split dict begin behind `ma_values`: since 3.13 their sizes stand before them."""
_FUNCTION_FIELDS = (48, 56, 64)
"""Code, defaults and keyword defaults of a PyFunctionObject."""
_FUNCTION_ANNOTATIONS = 112
FLOAT_VALUE_AT = 16


class TUPLE(enum.IntEnum):
    """Byte offsets in a tuple."""

    LENGTH = 16
    ITEMS = 24


class ARRAY(enum.IntEnum):
    """Byte offsets in an array of NumPy 2."""

    DATA = 16
    RANK = 24
    EXTENTS = 32
    STRIDES = 40
    DTYPE = 56
    FLAGS = 64


Word = tuple[int, int]
"""Address and present content."""


class PointerWord(tuple[int, int]):
    """A word whose content is the address of the object that a name is bound to."""


def pointer_word(address: int) -> Word:
    """A word that is the address of an object, or 0."""
    found = word(address)
    return PointerWord(found) if found[1] else found


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


def joined(*parts: list[Word] | None) -> list[Word] | None:
    """All of them; None if one is."""
    known = [part for part in parts if part is not None]
    return [item for part in known for item in part] if len(known) == len(parts) else None


def dict_words(watched: Mapping[str, object]) -> list[Word] | None:
    """The version of a dict, which changes whenever the dict does; None where it may not.

    That is where the values of an instance stand apart from their names, which its class has: since 3.13 the instance writes there past its dict.
    """
    return None if word_at(id(watched) + _MA_VALUES) != 0 else [word(id(watched) + _MA_VERSION)]


def cell_word(cell: object) -> Word:
    """The content of a closure cell."""
    return pointer_word(id(cell) + 16)


def function_words(function: types.FunctionType) -> list[Word] | None:
    """Code, defaults and keyword defaults of a function: each can be replaced, and the last are a dict that can be changed; None where that has no version."""
    parts = (function.__code__, function.__defaults__, function.__kwdefaults__)
    words: list[Word] = [HeldWord(word(id(function) + at), part) for at, part in zip(_FUNCTION_FIELDS, parts, strict=True)]
    return joined(words, [] if function.__kwdefaults__ is None else dict_words(function.__kwdefaults__))


def annotation_words(function: types.FunctionType) -> list[Word] | None:
    """The annotations of a function: a dict, which can be replaced and changed; None where it has no version."""
    names = function.__annotations__  # asking makes the dict
    return joined([HeldWord(word(id(function) + _FUNCTION_ANNOTATIONS), names)], dict_words(names))


def binding_words(namespace: dict[str, object], name: str) -> list[Word] | None:
    """Words that stay the same as long as `name` keeps its binding in `namespace`, or stays unbound; None where a key may say that it is any name.

    The dict lives as long as they are watched: one that shares its names with others of a class then never has another table of such names.
    """
    table, values = word_at(id(namespace) + _MA_KEYS), word_at(id(namespace) + _MA_VALUES)
    where = [HeldWord(word(id(namespace) + _MA_KEYS), namespace), word(id(namespace) + _MA_VALUES)]
    found = _entry(table, name)
    if found is None and values != 0 and name not in namespace:
        return [*where, word(table + _DK_COUNT)]  # the names of a class are only ever added to
    if found is None and not _keeps_names(table) and any(type(key) not in _KEYS for key in namespace):
        return None
    if found is None:
        return dict_words(namespace) if name in namespace or not _has_version(namespace) else [*where, word(table + _DK_SHAPE)]
    position, key = found
    if values != 0:  # of an instance: its class has the names, so a name can be there and its value not
        return [*where, pointer_word(values + _SPLIT_VALUES_AT + 8 * position)]
    entry = _entries(table) + position * _ENTRY_SIZE
    return [*where, HeldWord(word(entry), key), pointer_word(entry + 8)]


_LOOKUP = (lambda: len).__code__
_LOOKUPS = 64
"""Lookups of a global after which every interpreter has given the names a version."""


def _has_version(namespace: dict[str, object]) -> bool:
    """Let the interpreter give the names of a dict their version: no two are the same, and it goes with the next name that is added or removed.

    A table that was emptied and filled again may lie where it lay and be as long as it was; this tells.
    """
    table = word_at(id(namespace) + _MA_KEYS)
    if word_at(table + _DK_SHAPE) >> 32 == 0:
        there = "__builtins__" if "__builtins__" in namespace else "len"  # who gives builtins of their own may leave out any of them
        look = types.FunctionType(_LOOKUP.replace(co_names=(there,)), namespace)
        for _ in range(_LOOKUPS):
            look()
            if word_at(table + _DK_SHAPE) >> 32:
                break
    return word_at(table + _DK_SHAPE) >> 32 != 0


_KEYS = frozenset({str, int, float, bool, tuple, bytes, type(None)})
"""Types of keys that are equal to no text but themselves."""


def _keeps_names(table: int) -> bool:
    """Whether all keys of a table are plain texts."""
    return ctypes.c_uint8.from_address(table + _DK_KIND).value in (_UNICODE_KIND, _SPLIT_KIND)


def _entry(table: int, name: str) -> tuple[int, object] | None:
    """Which entry of the table is that of `name`, and the text that is its key: one of many that are equal."""
    if not _keeps_names(table):
        return None  # keys of other types, which may say that they equal anything
    first = _entries(table)
    for position in range(word_at(table + _DK_COUNT)):
        address = ctypes.c_void_p.from_address(first + position * _ENTRY_SIZE).value
        key = None if address is None else ctypes.cast(address, ctypes.py_object).value
        if key == name:
            return position, key
    return None


def _entries(table: int) -> int:
    """Address of the key of the first entry; its value is the next word."""
    return table + _DK_INDICES + (1 << ctypes.c_uint8.from_address(table + _DK_INDEX_BYTES).value)


def type_word(value: object) -> Word:
    """The class of an object, which can be replaced."""
    return word(id(value) + _OB_TYPE)


def dict_pointer(value: object, names: dict[str, object]) -> list[Word] | None:
    """Where an object keeps the address of `names`, its `__dict__`, which can be replaced; None where that is not known."""
    cls = type(value)
    managed = type_flags(cls) & MANAGED_DICT
    if not managed and dict_offset(cls) <= 0:
        return None
    found = word(id(value) + (_MANAGED_DICT_AT if managed else dict_offset(cls)))
    return [found] if found[1] == id(names) else None


def version_words(cls: type) -> list[Word] | None:
    """The version of a class: no two are the same, and it changes with every attribute of it and of its bases. None: it has none."""
    if type_flags(cls) & IMMUTABLE_TYPE:
        return []
    _type_lookup()(cls, "__get__")  # a class has a version once something was looked up in it
    found = word(id(cls) + _TP_VERSION_TAG)
    return [found] if found[1] & 0xFFFF_FFFF else None


own_names: Callable[[type], Mapping[str, object]] = vars(type)["__dict__"].__get__
"""What a class itself holds by name, whatever its metaclass answers to questions."""
bases_of: Callable[[type], tuple[type, ...]] = vars(type)["__mro__"].__get__
"""A class and its bases in the order of lookup; the same."""
dict_offset: Callable[[type], int] = vars(type)["__dictoffset__"].__get__
"""Where its instances keep their dict; the same."""


def type_flags(cls: type) -> int:
    """The flags of a class, as its memory has them."""
    return word_at(id(cls) + _TP_FLAGS)


def looks_up_like(cls: type, base: type) -> bool:
    """Whether attributes of instances of `cls` are looked up as `base` does it."""
    return word_at(id(cls) + _TP_GETATTRO) == word_at(id(base) + _TP_GETATTRO)


@cache
def _type_lookup() -> Callable[[type, str], object]:
    lookup = ctypes.pythonapi._PyType_Lookup
    lookup.restype, lookup.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.py_object]
    return lookup
