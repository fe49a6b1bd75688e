"""Kernels and helpers among the objects that questions give: whose names are asked for, and whose text is read."""

from __future__ import annotations

from typing import Any

from tilejit.jit.definition import Definition
from tilejit.kinds import is_a

OWNED = ("name", "around", "chain", "default", "annotations")
"""Operations whose first operand is a kernel or helper: they ask its definition."""


def owner_first(operation: str, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands of a question; what asks for a name of a kernel or helper asks its definition."""
    return (maybe_definition(operands[0]), *operands[1:]) if operation in OWNED else operands


def renew(raw: object) -> None:
    """Let a kernel or helper be read again if its code or its defaults were replaced since."""
    from tilejit.jit.specialize import dependencies

    dependencies.renew(raw)


def maybe_definition(raw: object) -> Definition | None:
    """The definition of a kernel or helper; None for anything else."""
    from tilejit.jit.specialize.dependencies import definition_of

    return raw if is_a(raw, Definition) else definition_of(raw)
