"""Nests that are written as three: reductions of short rows first, then what follows from them for each row, in vectors over the rows, and then the rest.

In one nest what is computed for a row between two sweeps over it is computed for that row alone, and everything waits for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.nests.plan import Kind, Member, make_plan
from tilejit.backends.cpu.rules import recipe
from tilejit.runtime.machine import cache_bytes
from tilejit.tile_ir import dialect as d
from tilejit.types.values import Shape, ShapedType

Part = tuple[Sequence[d.ApplyOp | d.StoreOp], Sequence[SSAValue]]
"""Ops of a nest, and those of their results that are used elsewhere."""
_MUCH = 4
"""Work for a row that is worth vectors: more than the few operations that sums and extremes are updated with."""
_LEAST_ROWS = 8


def cut(f: FunctionWriter, ops: Sequence[d.ApplyOp | d.StoreOp], outputs: Sequence[SSAValue]) -> list[Part]:
    """The nests of a group, in order."""
    whole: list[Part] = [(ops, outputs)]
    recipes = [found for op in ops if isinstance(op, d.ApplyOp) and (found := recipe(op))]
    if len(recipes) != len(ops):
        return whole
    plan = make_plan(recipes, (), outputs, (), 0)
    numbers = {value: _number(member, plan.members) for value, member in plan.members.items()}
    between = sum(member.recipe.cost for value, member in plan.members.items() if numbers[value] == 1)
    again = any(member.kind is Kind.FULL for member in plan.members.values())
    if None in numbers.values() or between < _MUCH or not again or not _is_small(plan.space):
        return whole
    parts: list[Part] = []
    for number in range(3):
        mine = [op for op in ops if numbers[op.results[0]] == number]
        later = {value for item in recipes if (numbers[item.result] or 0) > number for value in item.inputs}
        crossing = [op.results[0] for op in mine if op.results[0] in later or op.results[0] in outputs]
        # What is written must not lie where others still read.
        taken = frozenset[object]().union(*(f.targets[value].tokens for value in crossing if value in f.targets))
        if any(isinstance(d.type_of(value), ShapedType) and f.array(value).tokens & taken for value in later if value not in plan.members):
            return whole
        parts.append((mine, crossing))
    return parts


def _number(member: Member, members: Mapping[SSAValue, Member]) -> int | None:
    """The nest of a member: 0 for reductions of what is in memory, 1 for what follows for a row, 2 for the rest; None: it belongs to none of them."""
    item = member.recipe
    if member.kind is Kind.ROW and item.reduction is None and member.stage <= 1:
        return 1
    if member.kind is Kind.ROW and member.stage == 1:
        return None if any(value in members for value in item.inputs) else 0
    return None if member.kind is Kind.COLUMN or member.stage == 0 else 2


def _is_small(space: Shape) -> bool:
    """Whether the second cache holds what is read twice then, and there are rows for a vector."""
    known = [dim for dim in space if isinstance(dim, int)]
    return len(known) == len(space) and math.prod(known[:-1]) >= _LEAST_ROWS and math.prod(known) * 8 <= cache_bytes()[1]
