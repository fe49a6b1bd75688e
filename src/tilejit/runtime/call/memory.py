"""The words of this process's memory, read like a list: for the few places that look into objects of C libraries on every call."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from types import CodeType, FunctionType
from typing import cast

_USER_SPACE = 1 << 56  # more than any 64-bit system gives a process


def _all_words() -> memoryview | None:
    if sys.implementation.name != "cpython" or sys.maxsize < _USER_SPACE:
        return None
    # Nothing is touched until a word is asked for. Indexing a memoryview costs a third of making a ctypes object at the address.
    return memoryview((ctypes.c_char * _USER_SPACE).from_address(0)).cast("B").cast("q")


WORDS: memoryview | None = _all_words()
"""`WORDS[address >> 3]` is the signed 64-bit word there; None where addresses of objects are unknown."""


def comparison(words: Sequence[tuple[int, int]]) -> Callable[[], bool]:
    """Whether each of these words (address, content) is as it was. In their order, up to the first that is another: it may lead into memory that is gone."""
    values = [number for address, content in words for number in (address >> 3, content)]
    return cast("Callable[[], bool]", FunctionType(_comparison_code(len(words)), {}, argdefs=(WORDS, *values)))


@cache
def _comparison_code(count: int) -> CodeType:
    """Without a loop, which would take as long again: warm calls through Python compare some ten words."""
    values = "".join(f", a{number}, b{number}" for number in range(count))
    text = f"lambda w{values}: {' and '.join(f'w[a{number}] == b{number}' for number in range(count)) or True}"
    return next(part for part in compile(text, "<comparison>", "eval").co_consts if isinstance(part, CodeType))


def word_at(address: int) -> int:
    """The signed word at an address that is a multiple of 8."""
    return ctypes.c_int64.from_address(address).value if WORDS is None else WORDS[address >> 3]
