"""Python text as a syntax tree, from any thread: the one place that calls `ast.parse`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TypeVar

_TRIES = 1000
Tree = TypeVar("Tree")


def statements(text: str, filename: str = "<unknown>") -> ast.Module:
    """The tree of a text of statements."""
    return _again(lambda: ast.parse(text, filename))


def expression(text: str) -> ast.expr:
    """The tree of a text that is one expression."""
    return _again(lambda: ast.parse(text, mode="eval")).body


def _again(parse: Callable[[], Tree]) -> Tree:
    """CPython up to 3.12 counts the depth of trees for all threads together, and takes another thread's for an error of its own: a SystemError."""
    for _ in range(_TRIES):
        try:
            return parse()
        except SystemError:
            continue
    return parse()
