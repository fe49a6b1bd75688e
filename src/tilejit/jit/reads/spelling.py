"""Values and operators in messages, without running code of the user."""

from __future__ import annotations

from tilejit.jit.reads.plain import is_plain, language_path

SIGNS = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**", "LShift": "<<", "RShift": ">>", "BitAnd": "&", "BitOr": "|",
    "BitXor": "^", "MatMult": "@", "UAdd": "+", "USub": "-", "Invert": "~", "Not": "not", "Eq": "==", "NotEq": "!=", "Lt": "<", "LtE": "<=", "Gt": ">",
    "GtE": ">=", "Is": "is", "IsNot": "is not", "In": "in", "NotIn": "not in",
}  # fmt: skip
"""Operators by the name of their `ast` class."""


def shown(value: object, width: int = 80) -> str:
    """A value in a message, without running code of its class."""
    if is_plain(value):
        text = language_path(value) or repr(value)
    elif type(value) in (list, dict, set, frozenset, tuple):
        text = repr(value)
    else:
        name = getattr(value, "__qualname__", None)
        text = f"{type(value).__qualname__} {name}" if isinstance(name, str) else f"a {type(value).__qualname__}"
    return text if len(text) <= width else text[: width - 3] + "…"



