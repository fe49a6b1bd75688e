"""Calls of helpers that do more than compute: what they return may be known here, but they have to run."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from tilejit.ops import public
from tilejit.ops.facts import Effect
from tilejit.ops.spec import ParamKind


def has_effects(body: Sequence[ast.stmt], acting: Collection[str]) -> bool:
    """Whether a specialised body writes, prints, checks or waits; `acting` are helpers that do."""
    for node in (part for statement in body for part in ast.walk(statement)):
        if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            return True
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)):
            return True
        if isinstance(node, ast.Call) and (called_helper(node) in acting or is_op_with_effect(node.func)):
            return True
    return False


def acting_calls(node: ast.AST, acting: Collection[str]) -> Iterator[ast.Call]:
    """The calls of such helpers in an expression, in the order in which they run; those in their arguments are theirs."""
    if isinstance(node, ast.Call) and called_helper(node) in acting:
        yield node
    else:
        for child in ast.iter_child_nodes(node):
            yield from acting_calls(child, acting)


def calls_before(node: ast.expr | None, acting: Collection[str]) -> tuple[Sequence[ast.expr], ast.expr | None]:
    """The calls of such helpers that a value stands behind, `(self.helper(out), 5)[1]`, and that value."""
    members = node.value.elts if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Tuple) else []
    last = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == len(members) - 1
    if not last or not all(isinstance(call, ast.Call) and called_helper(call) in acting for call in members[:-1]):
        return [], node
    return members[:-1], members[-1]


def called_helper(call: ast.Call) -> str | None:
    """The helper of the program that is called: `self.helper(…)`."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "self" else None


def is_op_with_effect(function: ast.expr) -> bool:
    """Whether the text calls an op, or a method of that name, that writes or waits: `pl.write(…)`, `pl.tile.store(…)`."""
    if not isinstance(function, ast.Attribute):
        return False
    found = [public(space, function.attr) for space in ("pl", function.value.attr if isinstance(function.value, ast.Attribute) else "pl")]
    rows = [row for meant in found if meant is not None for _, row in meant.rows]
    return any(row.facts.effect is not Effect.Nothing or row.facts.writes is not None for row in rows)


ISSUE = "issue"
"""The attribute of such a call that says which one it is; copies of its text have it too."""


class Write(NamedTuple):
    """How a call of an op that writes into a tensor says what it writes, and where: "target", "value", "offsets" and "clamp"."""

    places: Sequence[str]
    """What is given by position; "" for all else."""
    names: Mapping[str, str]
    """What is given by name, as any spelling of the op has it."""
    element: bool
    """Whether it writes one element."""

    def given(self, call: ast.Call) -> dict[str, ast.expr]:
        """What a call says, by role."""
        found: dict[str, ast.expr] = dict(zip(self.places, call.args, strict=False))
        return {**found, **{self.names.get(keyword.arg, ""): keyword.value for keyword in call.keywords if keyword.arg is not None}}


def write_of(name: str) -> Write | None:
    """An op of that name that writes into a tensor at offsets."""
    function = public("pl", name)
    row = next((row for _, row in function.rows if row.facts.writes is not None), None) if function is not None else None
    offsets = next((param.name for param in row.params if param.kind is ParamKind.Scalars), None) if row is not None else None
    if row is None or offsets is None:
        return None
    written = next(param for param in reversed(row.params) if param.name != row.facts.writes and param.kind not in (ParamKind.Scalars, ParamKind.Static))
    roles = {row.facts.writes: "target", offsets: "offsets", written.name: "value", "clamp": "clamp"}
    places = [roles.get(param.name, "") for param in row.params]
    names = {name: role for name, role in roles.items() if name is not None}  # what has no place has the row's own
    names |= {name: role for spelling in row.spellings for name, role in zip(spelling.places, places, strict=False)}
    return Write(places, names, written.kind is ParamKind.Scalar)
