"""Values some of whose cells hold nothing, and operators on them: what the sanitizer knows of what lies in no memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilejit.backends.reference.depends import Arguments, Unknown, dependent
from tilejit.backends.reference.memory import Buffer, NDArray, Value
from tilejit.backends.reference.shadow import Shadow
from tilejit.ops.evaluate import ArrayValue
from tilejit.tile_ir import dialect as d


@dataclass(frozen=True, slots=True)
class PartlyDefined(ArrayValue):
    """A value some of whose valid cells hold nothing: their states."""

    states: NDArray


@dataclass(frozen=True, slots=True)
class Application:
    """An operator on operands some of whose cells may hold nothing."""

    op: d.ApplyOp
    compute: Callable[[Arguments], Sequence[Any]]
    arguments: Arguments
    unknown: Unknown
    states: Mapping[str, NDArray | None]
    """Of operands with cells that nobody wrote."""
    results: Sequence[Value]

    def dependent(self, unknown: Unknown) -> list[NDArray]:
        """The cells of each result that depend on those."""
        return dependent(self.compute, self.arguments, unknown, self.results)


def remembered(value: Value) -> tuple[Shadow | None, NDArray | None]:
    """What is known of a value: its memory, if it lies in some, and the states of its valid cells; None: all of them hold something."""
    if isinstance(value, Buffer):
        states = None if value.shadow is None else value.shadow.state(value.array).max(axis=-1)
        return value.shadow, states
    return None, value.states[tuple(slice(0, size) for size in value.valid)] if isinstance(value, PartlyDefined) else None
