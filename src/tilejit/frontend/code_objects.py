"""Code objects of Python functions by what they do."""

from __future__ import annotations

import dis
import hashlib
import opcode
import sys
from collections.abc import Iterator
from types import CodeType
from typing import cast

_HAS_DOCSTRING = 0x4000000
"""Flag of code objects since Python 3.13; before, the first constant of a function is its docstring or None."""

_LOADS = frozenset(opcode.hasconst)
"""Instructions whose argument is the number of a constant."""

_RUN_TIME_FLAGS = 0xFFFF
"""Flags that the interpreter looks at; those above say which future statements the compiler saw."""


def nested(code: CodeType) -> Iterator[CodeType]:
    """The code object and those of the functions, lambdas and comprehensions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def instructions_of(code: CodeType) -> list[dis.Instruction] | None:
    """What a code object does, step by step; None: it has a number of more digits than Python writes, which no step can show."""
    try:
        return list(dis.get_instructions(code))
    except ValueError:
        return None


def content_of(code: CodeType) -> tuple[object, ...]:
    """Everything that decides what the code does, as plain values; lines, comments and docstrings do not count."""
    constants = [content_of(constant) if isinstance(constant, CodeType) else constant for constant in code.co_consts]
    if constants and isinstance(constants[0], str) and _is_docstring(code):
        constants[0] = None
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _RUN_TIME_FLAGS)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return (code.co_code, getattr(code, "co_exceptiontable", b""), counts, names, tuple(constants))


def digest_of(code: CodeType) -> str:
    """A digest of what the code does: 1, 1.0 and True differ, and sets have an order of their own in every process."""
    content = content_of(code)
    try:
        text = repr(content)
    except ValueError:  # a number of more digits than Python writes
        text = repr(content := _in_hexadecimal(content))
    if "frozenset" in text:
        text = repr(_sorted(content))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _in_hexadecimal(value: object) -> object:
    if isinstance(value, tuple | frozenset):
        return type(value)(map(_in_hexadecimal, cast("tuple[object, ...]", value)))  # pyright: ignore[reportUnknownVariableType]
    return ("int", hex(value)) if type(value) is int else value


def _sorted(value: object) -> object:
    if isinstance(value, frozenset):
        return ("frozenset", *sorted(repr(_sorted(item)) for item in cast("frozenset[object]", value)))
    return tuple(_sorted(item) for item in cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value


def _is_docstring(code: CodeType) -> bool:
    """Whether the first constant is a docstring and nothing else: one that equals a text of the body is that text too."""
    instructions = code.co_code
    if any(op in _LOADS and number == 0 for op, number in zip(instructions[::2], instructions[1::2], strict=True)):
        return False
    return bool(code.co_flags & _HAS_DOCSTRING) if sys.version_info >= (3, 13) else not code.co_name.startswith("<")
