"""Questions from the disk: what they must look like before they are asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilejit.jit.reads.handles import is_handle
from tilejit.jit.reads.owners import OWNED, maybe_definition
from tilejit.jit.reads.questions import MAKING, OPERATORS, is_language
from tilejit.types.annotations import DynVar

_MANY = 1 << 30
_COUNTS = {
    "name": (2, 2), "around": (2, _MANY), "argument": (1, 1), "default": (2, 2),
    "chain": (2, _MANY), "annotations": (1, 1), "symbol": (2, 2), "assigned": (2, _MANY), "attr": (2, 3), "item": (2, 2), "call": (3, 4),
    "operator": (2, 3), "truth": (1, 1), "items": (1, 1), "text": (3, 3), "content": (1, 1), "nature": (1, 1), "kind": (3, 3),
}  # fmt: skip
"""How many operands each operation has."""


def has_form(operation: object, operands: Sequence[Any], first: object) -> bool:
    """Whether there is such an operation with operands of this number and these kinds; `first` is what the first one stands for, if it is a handle."""
    if not isinstance(operation, str):
        return False
    least, most = _COUNTS.get(operation, (1, 0))
    if not least <= len(operands) <= most:
        return False
    if operation in MAKING and not all(type(turn) is int and turn > 0 for turn in operands[MAKING[operation] :]):
        return False
    if operation in OWNED:
        return is_handle(operands[0]) and maybe_definition(first) is not None
    if operation == "assigned":
        return is_handle(operands[0]) and is_language(first) and all(isinstance(name, str) for name in operands[1:])
    if operation == "symbol":
        return all(map(is_handle, operands)) and isinstance(first, DynVar)
    if operation == "kind":
        return is_handle(operands[1]) and isinstance(operands[2], str)
    if operation == "argument":
        return isinstance(operands[0], str)
    if operation == "call":
        return type(operands[1]) is tuple and type(operands[2]) is dict
    return operation != "operator" or operands[0] in OPERATORS


def named_by(operation: str, operands: Sequence[Any]) -> Sequence[object]:
    """The names in a question, all of which must occur in the kernel's text."""
    if operation == "call":
        return () if is_handle(operands[0]) else (str(getattr(operands[0], "__name__", "")),)
    return operands[1 : MAKING.get(operation)] if operation in ("name", "around", "chain", "attr") else ()
