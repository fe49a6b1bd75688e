"""Calls of helpers that do more than compute: what they return may be known here, but they have to run."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

from tilejit.ops import public
from tilejit.ops.facts import Effect


def has_effects(body: Sequence[ast.stmt], acting: Collection[str]) -> bool:
    """Whether a specialised body writes, prints, checks or waits; `acting` are helpers that do."""
    for node in (part for statement in body for part in ast.walk(statement)):
        if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            return True
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)):
            return True
        if isinstance(node, ast.Call) and (called_helper(node) in acting or _is_op_with_effect(node.func)):
            return True
    return False


def acting_calls(node: ast.AST, acting: Collection[str]) -> Iterator[ast.Call]:
    """The calls of such helpers in an expression, in the order in which they run; those in their arguments are theirs."""
    if isinstance(node, ast.Call) and called_helper(node) in acting:
        yield node
    else:
        for child in ast.iter_child_nodes(node):
            yield from acting_calls(child, acting)


def called_helper(call: ast.Call) -> str | None:
    """The helper of the program that is called: `self.helper(…)`."""
    return named_helper(call.func)


def named_helper(node: ast.AST) -> str | None:
    """The helper of the program that is named: `self.helper`."""
    return node.attr if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self" else None


def _is_op_with_effect(function: ast.expr) -> bool:
    """Whether the text calls an op, or a method of that name, that writes or waits: `pl.write(…)`, `pl.tile.store(…)`."""
    if not isinstance(function, ast.Attribute):
        return False
    if roles_of_write(function.attr) is not None:
        return True
    found = public(function.value.attr if isinstance(function.value, ast.Attribute) else "pl", function.attr)
    return found is not None and any(row.facts.effect is not Effect.Nothing or row.facts.writes is not None for _, row in found.rows)


ELEMENT = {"dst": "target", "tensor": "target", "offset": "offsets", "indices": "offsets", "value": "value"}
"""What the parameters of an op that writes one element are."""


def roles_of_write(name: str) -> Mapping[str, str] | None:
    """What each parameter of an op that writes into a tensor is, in order."""
    match name:
        case "store":
            return {"tile": "value", "offsets": "offsets", "output_tensor": "target"}
        case "assemble":
            return {"target": "target", "source": "value", "offset": "offsets"}
        case "write":
            return ELEMENT
        case _ if name.startswith("atomic_"):
            return ELEMENT
        case _:
            return None
