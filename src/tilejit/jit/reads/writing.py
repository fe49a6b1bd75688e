"""Questions and answers in writing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, cast

from tilejit.jit.reads.handles import Handle
from tilejit.jit.reads.plain import dumps, encode

UNNAMED = ("len", "type", "sorted", "keys", "isinstance", "__self__")
"""What is asked without a word in the text: `*` asks for the length, `**` for the keys, a container that the kernel takes over for its type, a set in order,
`pl.constexpr[list]` for the class, a method that moves an iterator on for that."""


def question_of(operation: str, operands: tuple[object, ...], reference: Callable[[object], object]) -> str:
    """A question as JSON; `reference` writes the operands that are not plain. Most are names, which stand for themselves, and handles."""
    rows: list[object] = [operation]
    for operand in operands:
        kind = type(operand)
        rows.append(operand if kind is str else reference(operand) if kind is Handle else encode(operand, reference))
    return dumps(rows)


def flat(operands: object) -> Iterator[object]:
    """The operands of a question, those in tuples too."""
    if type(operands) is tuple or type(operands) is list:
        for item in cast("tuple[object, ...]", operands):
            yield from flat(item)
    elif type(operands) is dict:
        yield from flat(tuple(cast("dict[object, object]", operands).values()))
    else:
        yield operands


def ours(raw: object) -> tuple[str, str]:
    """Objects of the front end (functions of programs) and annotations, by their text."""
    text = cast("Any", raw).as_python() if hasattr(raw, "as_python") else repr(raw)
    return "ours", digest(text)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
