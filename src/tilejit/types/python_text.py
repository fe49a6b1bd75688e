"""Python text as a syntax tree or code, from any thread, however that computes: the one place that calls `ast.parse`."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Callable
from types import CodeType
from typing import TypeVar

from tilejit import float_mode

_TRIES = 1000
Tree = TypeVar("Tree")


def statements(text: str, filename: str = "<unknown>") -> ast.Module:
    """The tree of a text of statements."""
    return _again(lambda: ast.parse(text, filename))


def expression(text: str) -> ast.expr:
    """The tree of a text that is one expression."""
    return _again(lambda: ast.parse(text, mode="eval")).body


def module_code(text: str, filename: str, flags: int = 0) -> CodeType:
    """The code of a text of statements; `flags` are those of its `from __future__`, if it does not say so itself."""
    return _again(lambda: compile(text, filename, "exec", flags, dont_inherit=True))


def scopes(text: str) -> symtable.SymbolTable:
    """What Python's compiler knows of the names in a text of statements."""
    return _again(lambda: symtable.symtable(text, "<unknown>", "exec"))


def _again(parse: Callable[[], Tree]) -> Tree:
    """CPython up to 3.12 counts the depth of trees for all threads together, and takes another thread's for an error of its own: a SystemError."""
    with float_mode.usual():
        for _ in range(_TRIES):
            try:
                return parse()
            except SystemError:
                continue
        return parse()
