"""The words of this process's memory, read like a list: for the few places that look into objects of C libraries on every call."""

from __future__ import annotations

import ctypes
import sys

_USER_SPACE = 1 << 56  # more than any 64-bit system gives a process


def _all_words() -> memoryview | None:
    if sys.implementation.name != "cpython" or sys.maxsize < _USER_SPACE:
        return None
    # Nothing is touched until a word is asked for. Indexing a memoryview costs a third of making a ctypes object at the address.
    return memoryview((ctypes.c_char * _USER_SPACE).from_address(0)).cast("B").cast("q")


WORDS: memoryview | None = _all_words()
"""`WORDS[address >> 3]` is the signed 64-bit word there; None where addresses of objects are unknown."""


def word_at(address: int) -> int:
    """The signed word at an address that is a multiple of 8."""
    return ctypes.c_int64.from_address(address).value if WORDS is None else WORDS[address >> 3]
