"""Which rows of the op table the PTO writer can write: read off its own tables, so that the support matrix cannot be wrong about it."""

from __future__ import annotations

from functools import cache

from tilejit.backends.pto.write import index as emit_index
from tilejit.backends.pto.write import kernel as emit
from tilejit.backends.pto.write import move as emit_move
from tilejit.backends.pto.write import plan as emit_plan
from tilejit.backends.pto.write import scalars as emit_scalars
from tilejit.ops.spec import OpSpec

_BEFORE_KERNELS = frozenset({"task_dummy", "task_invalid", "no_dep"})
"""Rows that are gone, or stay on the control plane, when kernels are written."""


@cache
def written_rows() -> frozenset[str]:
    """Rows with a rule: block by block, in memory, as statements, or as scalars."""
    tables = (emit.RULES, emit.ORDERING, emit_index.MANY, emit.COPIES, emit_move.LARGE, emit.EFFECTS, emit.ARRAYS, emit_plan.BATCHES, emit_scalars.SCALAR_OPS)
    return frozenset(name for table in tables for name in table) | _BEFORE_KERNELS


def hole(row: OpSpec) -> str | None:
    """Why a row cannot be written as PTO text, or None when it can."""
    if row.derived is not None or row.name in written_rows() or (row.family == "structural" and row.name != "alloc"):
        return None
    if row.name == "alloc":
        return "it appears in printed programs only"
    return "the PTO writer has no rule for it"
