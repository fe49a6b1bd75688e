"""Values and operators in messages, without running code of the user."""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from typing import cast

from tilejit.jit.reads.handles import is_handle
from tilejit.jit.reads.owners import OWNED
from tilejit.jit.reads.plain import decode, is_plain, language_path
from tilejit.kinds import class_name, is_a

SIGNS = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**", "LShift": "<<", "RShift": ">>", "BitAnd": "&", "BitOr": "|",
    "BitXor": "^", "MatMult": "@", "UAdd": "+", "USub": "-", "Invert": "~", "Not": "not", "Eq": "==", "NotEq": "!=", "Lt": "<", "LtE": "<=", "Gt": ">",
    "GtE": ">=", "Is": "is", "IsNot": "is not", "In": "in", "NotIn": "not in",
}  # fmt: skip
"""Operators by the name of their `ast` class."""


_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)


def shown(value: object, width: int = 80) -> str:
    """A value in a message, without running code of its class."""
    if is_plain(value) or type(value) in (list, dict, set, frozenset, tuple):
        try:
            text = language_path(value) or repr(value)
        except Exception:
            text = f"a {class_name(type(value))}"  # an integer longer than Python writes, or members whose repr fails
    else:
        name = f" {class_name(value) if is_a(value, type) else cast('types.FunctionType', value).__qualname__}" if type(value) in _NAMED else ""
        text = f"{class_name(type(value))}{name}" if name else f"a {class_name(type(value))}"
    return text if len(text) <= width else text[: width - 3] + "…"


def told(answer: str) -> str:
    """An answer that was written down, as a message shows it."""
    try:
        return shown(decode(json.loads(answer)))
    except Exception:  # no plain value: what it is stands in the writing
        return answer


def spelled_as(operation: str, operands: tuple[object, ...], show: Callable[[object], str]) -> str:
    """A question as the kernel's text would have it; `show` spells its operands."""
    if operation in OWNED:
        return ".".join(map(str, operands[1:])) or "annotations in quotes"
    if operation == "argument":
        return str(operands[0])
    if operation == "operator":
        parts = [show(operand) for operand in operands[1:]]
        sign = SIGNS.get(str(operands[0]), str(operands[0]))
        return f"{parts[0]} {sign} {parts[1]}" if len(parts) == 2 else f"{sign} {parts[0]}"
    base = getattr(operands[0], "__name__", None) if not is_handle(operands[0]) else None
    base = base if isinstance(base, str) else show(operands[0])
    if operation == "attr":
        return f"{base}.{operands[1]}"
    if operation == "item":
        return f"{base}[{show(operands[1])}]"
    if operation == "call":
        args, keywords = cast("tuple[tuple[object, ...], dict[str, object]]", operands[1:3])
        given = ", ".join([*map(show, args), *[f"{name}={show(value)}" for name, value in keywords.items()]])
        return f"{base}({given})" if len(given) <= 60 else f"{base}(…)"
    if operation == "assigned":
        return f"names assigned in {base}"
    if operation == "nature":
        return f"type({base})"
    if operation == "kind":
        return f"{operands[2]}={base}"
    return base if operation in ("content", "truth", "items", "text", "symbol") else operation


def told_as(operation: str, path: str, spelled: str) -> str:
    """A question in an error: as the text of the kernel has it, else as it is spelled; of a call the function, so that both are one."""
    return (path or spelled).strip("`").partition("(")[0] if operation == "call" else path or f"`{spelled}`"
