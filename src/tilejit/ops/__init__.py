"""The op table: every operation of the language, declared once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from tilejit.ops.facts import PLAIN, Facts
from tilejit.ops.spec import TABLE, OpFunction, OpSpec, ParamKind, Spelling
from tilejit.types.groups import GROUPS

_ROW_MODULES = ("math", "complex", "activations", "bits", "part", "compare", "structural", "movement", "pad", "window", "generate", "reduce", "expand", "matmul", "axes", "shapes", "angles", "scan", "order", "mx", "gather", "scatter", "sort", "memory", "update", "atomics", "sync", "fifo", "schedule", "array", "ranks")
"""Modules that declare rows when imported, in the order of the specification's tables."""

NAMESPACES = ("pl", *GROUPS, "pld", "pld.system", "pld.tensor", "pld.tile")


@cache
def table() -> dict[str, OpSpec]:
    """Every op by its canonical name."""
    for module in _ROW_MODULES:
        import_module(f"tilejit.ops.{module}")
    return TABLE


def facts(name: str) -> Facts:
    """The facts of a row; statements that are no rows have none."""
    row = table().get(name)
    return PLAIN if row is None else row.facts


@cache
def _index() -> Mapping[tuple[str, str], OpFunction]:
    rows: dict[tuple[str, str], list[tuple[Spelling, OpSpec]]] = {}
    for row in table().values():
        for spelling in row.spellings:
            rows.setdefault((spelling.namespace, spelling.name), []).append((spelling, row))
    return {key: OpFunction(*key, tuple(found)) for key, found in rows.items()}


def public(namespace: str, name: str) -> OpFunction | None:
    """What `pl.<name>` (namespace "pl") or `pl.<namespace>.<name>` means, or None."""
    return _index().get((namespace, name))


def public_names(namespace: str) -> tuple[str, ...]:
    """All op names of a namespace, sorted."""
    return tuple(sorted(name for space, name in _index() if space == namespace))


def step(level: str, name: str) -> OpFunction:
    """The op that a step of a composed row names: that of the level's namespace, where it has one."""
    found = public(level, name) or public("pl", name)
    assert found is not None, name
    return found


RENAMED = {"astype": "cast", "to": "cast"}
"""Methods of NumPy and torch that have another name here."""


def method(name: str) -> OpFunction | None:
    """The op that `x.name(…)` means, which takes x first."""
    function = public("pl", RENAMED.get(name, name))
    if function is None or not (params := function.rows[0][1].params) or function.rows[0][1].family == "structural":
        return None
    return function if params[0].kind in (ParamKind.Value, ParamKind.Operand) else None


def takes_list(function: OpFunction) -> bool:
    """Whether the second argument is a list, whose brackets a method may leave out: `x.reshape(2, 3)`."""
    spelling, row = function.rows[0]
    return len(spelling.places) == 2 and (row.params[1].kind is ParamKind.Scalars or row.params[1].name in ("axes", "steps"))


@cache
def spelled(fact: str) -> frozenset[str]:
    """Public names of the rows that have a fact, as they stand in calls."""
    return frozenset(spelling.name for row in table().values() if getattr(row.facts, fact) for spelling in row.spellings)


@cache
def operators() -> Mapping[str, str]:
    """The row of each Python operator, by the name of its `ast` class."""
    return {row.facts.operator: name for name, row in table().items() if row.facts.operator is not None}


COMPARISONS = {"Eq": 0, "NotEq": 1, "Lt": 2, "LtE": 3, "Gt": 4, "GtE": 5}
"""The cmp_type of each comparison; the row is "cmp", of tiles "cmp_mask"."""
