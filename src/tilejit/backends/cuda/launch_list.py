"""An entry that only computes numbers and launches, as a list of launches whose numbers are terms over the entry's inputs."""

from __future__ import annotations

from collections.abc import Mapping

from tilejit.backends.cuda.plan import Apply, Compute, EntryPlan, Expr, Launch, Move, Var
from tilejit.runtime.cuda.program import LaunchRow, Node

_OPERATIONS = ("add", "sub", "mul", "minimum", "maximum", "floordiv", "ceildiv", "mod")
"""Ops on INDEX numbers that a term may have."""


class _NoTerm(Exception):
    """A number that is more than that."""


def launch_list(entry: EntryPlan) -> tuple[LaunchRow, ...] | None:
    """The launches of an entry; None when it does anything else."""
    names: dict[str, Node | None] = {given.name: ("input", position) for position, given in enumerate(entry.inputs)}
    found: list[LaunchRow] = []
    try:
        for step in entry.steps:
            match step:
                case Compute():
                    names[step.target] = _maybe(step.value, names)
                case Move():
                    names |= dict(zip(step.targets, [_maybe(value, names) for value in step.values], strict=True))
                case Launch():
                    numbers = [_term(number, names) for number in (*step.grid, *step.arguments)]
                    found.append(LaunchRow(step.kernel, tuple(numbers[:3]), tuple(numbers[3:])))
                case _:
                    return None
    except _NoTerm:
        return None
    return tuple(found)


def _maybe(expression: Expr, names: Mapping[str, Node | None]) -> Node | None:
    """The term of a number, None where it has none: it may never be used."""
    try:
        return _term(expression, names)
    except _NoTerm:
        return None


def _term(expression: Expr, names: Mapping[str, Node | None]) -> Node:
    match expression:
        case bool() | float():
            raise _NoTerm
        case int():
            return expression
        case Var():
            found = names.get(expression.name)
            if found is None:
                raise _NoTerm
            return found
        case Apply():
            plain = expression.dtype == "INDEX" and all(operand == "INDEX" for operand in expression.operands) and not expression.statics
            if not plain or expression.op not in _OPERATIONS:
                raise _NoTerm
            left, right = (_term(argument, names) for argument in expression.args)
            return expression.op, left, right
