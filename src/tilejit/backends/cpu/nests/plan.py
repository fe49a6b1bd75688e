"""Plans a loop nest for a group of ops: what is computed per element and per row, in how many sweeps over a row, and what is kept between them.

Ops run over one space, rows × columns (the last dim). A value is

    full     one element per cell of the space
    row      one element per row: results of reductions along the row, and what is computed from them
    column   one element per column: results of reductions along another axis, complete only after the nest

A reduction along the row splits the sweeps over it into stages: what needs its result comes at least one stage later. A full
value that a later stage needs is computed again when that is cheap, else kept in a buffer of one row.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.ir import SSAValue

from tilejit.backends.cpu.llvm.text import Emitter
from tilejit.backends.cpu.nests.recipes import Recipe
from tilejit.backends.cpu.schedule import NestSchedule
from tilejit.tile_ir import dialect as d
from tilejit.types.values import Shape, ShapedType


class Kind(enum.Enum):
    FULL = "full"
    ROW = "row"
    COLUMN = "column"


@dataclass(slots=True)
class Member:
    """An op of the group in its place."""

    recipe: Recipe
    kind: Kind
    stage: int
    """First sweep in which the value exists; for a reduction along the row, the sweep after the one that computes it."""


@dataclass(slots=True)
class Write:
    """A full or row value that goes to memory: a result that others need, or a store."""

    value: SSAValue
    store: d.StoreOp | None
    stage: int


@dataclass(slots=True)
class Plan:
    """The nest of a group."""

    space: Shape
    members: dict[SSAValue, Member]
    writes: list[Write]
    stages: int
    recompute: int
    """Work up to which a full value is computed again in a later stage."""
    kept: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """Full values that get a row buffer, and the stage that fills it."""

    def kind(self, value: SSAValue) -> Kind | None:
        """How a member is held; None for everything that comes from outside."""
        member = self.members.get(value)
        return member.kind if member else None

    @property
    def row_reductions(self) -> list[Member]:
        return [member for member in self.members.values() if member.recipe.reduction and member.kind is Kind.ROW]

    @property
    def column_reductions(self) -> list[Member]:
        return [member for member in self.members.values() if member.kind is Kind.COLUMN]

    @property
    def has_rows(self) -> bool:
        """Whether rows mean something, so that the last dim must stay apart from the others."""
        recipes = [member.recipe for member in self.members.values()]
        special = any(item.masks or item.is_mask or item.blocks or item.reduction for item in recipes)
        return special or self.has_row_values

    @property
    def has_row_values(self) -> bool:
        return any(member.kind is Kind.ROW for member in self.members.values())


LIGHT = 4
"""Work on a cell up to which a nest waits for memory only."""


def scheduled(e: Emitter, recipes: Sequence[Recipe], stores: Sequence[d.StoreOp]) -> NestSchedule:
    """What is chosen for the nest of a group."""
    values = [value for item in recipes for value in (*item.inputs, item.result)] + [value for store in stores for value in (store.value, store.buffer)]
    dtypes = [type.dtype for value in values if isinstance(type := d.type_of(value), ShapedType)]
    folds = any(item.reduction is not None and item.reduction.axis != len(item.space) - 1 for item in recipes)
    # Bits of a mask come by the byte: with fewer than eight lanes at a time the wrong ones would be looked at.
    light = sum(item.cost for item in recipes) <= LIGHT and all(item.reduction is None and not item.masks and not item.is_mask for item in recipes)
    return e.module.schedules.nest(e.name, dtypes, all(item.wide for item in recipes), folds, _bytes(recipes, stores) if light else None)


def _bytes(recipes: Sequence[Recipe], stores: Sequence[d.StoreOp]) -> int:
    """What a nest reads from outside and writes, where all extents are known before the run; more than any cache holds otherwise."""
    read = {value for item in recipes for value in item.inputs} - {item.result for item in recipes}
    total = 0
    for value in (*read, *(store.value for store in stores)):
        if isinstance(type := d.type_of(value), ShapedType):
            extents = [extent for extent in type.shape if isinstance(extent, int)]
            if len(extents) < len(type.shape):
                return sys.maxsize
            total += prod(extents) * type.dtype.bits // 8
    return total


def make_plan(
    recipes: Sequence[Recipe], stores: Sequence[d.StoreOp], outputs: Iterable[SSAValue], delayed: Iterable[SSAValue | d.StoreOp], recompute: int
) -> Plan:
    """The plan of a group; `delayed` outputs and stores overwrite memory that the group reads, so they come in the last sweep."""
    space = _space([recipe.space for recipe in recipes] + [d.shaped_type(store.value).shape for store in stores])
    members: dict[SSAValue, Member] = {}
    for recipe in recipes:
        members[recipe.result] = _member(recipe, members, space)
    plan = Plan(space, members, [], 1, recompute)
    plan.stages = 1 + max((member.stage for member in members.values() if member.kind is Kind.FULL), default=0)
    for member in plan.row_reductions:
        # The sweep that computes a reduction exists even when nothing full follows it.
        plan.stages = max(plan.stages, member.stage)
    for member in plan.column_reductions:
        plan.stages = max(plan.stages, member.stage + 1)
    late = set(delayed)
    for value in outputs:
        if plan.kind(value) is not Kind.COLUMN:
            plan.writes.append(Write(value, None, _write_stage(plan, value, value in late)))
    for store in stores:
        plan.writes.append(Write(store.value, store, _write_stage(plan, store.value, store in late)))
    _keep(plan)
    return plan


def _space(shapes: Sequence[Shape]) -> Shape:
    wide = [shape for shape in shapes if shape[-1] != 1]
    return max(wide or shapes, key=len)


def _member(recipe: Recipe, members: dict[SSAValue, Member], space: Shape) -> Member:
    sources = [members[value] for value in recipe.inputs if value in members]
    stage = max((source.stage for source in sources), default=0)
    if recipe.reduction is not None:
        if recipe.reduction.axis != len(recipe.space) - 1:
            return Member(recipe, Kind.COLUMN, stage)
        return Member(recipe, Kind.ROW, stage + 1)
    if space[-1] == 1:
        of_rows = any(source.kind is Kind.ROW for source in sources) and not any(source.kind is Kind.FULL for source in sources)
    else:
        of_rows = recipe.space[-1] == 1
    return Member(recipe, Kind.ROW if of_rows else Kind.FULL, stage)


def _write_stage(plan: Plan, value: SSAValue, late: bool) -> int:
    member = plan.members.get(value)
    return plan.stages - 1 if late else member.stage if member else 0


def _keep(plan: Plan) -> None:
    """Decide which full values are kept in row buffers."""
    wanted = [(member.recipe.inputs[0], member.stage - 1) for member in plan.row_reductions]
    wanted += [(member.recipe.inputs[0], member.stage) for member in plan.column_reductions]
    wanted += [(write.value, write.stage) for write in plan.writes]
    seen: set[tuple[SSAValue, int]] = set()
    pending = wanted[::-1]
    while pending:
        demand = pending.pop()
        if demand not in seen:
            seen.add(demand)
            pending += reversed(_demands(plan, *demand))


def _demands(plan: Plan, value: SSAValue, stage: int) -> list[tuple[SSAValue, int]]:
    """A full value is needed in `stage`: what that needs in turn. It is kept from its own stage when computing it again would cost too much."""
    member = plan.members.get(value)
    if member is None or member.kind is not Kind.FULL:
        return []
    if member.stage < stage and value not in plan.kept and _costs_much(plan, value, stage):
        plan.kept[value] = member.stage
    if value in plan.kept and member.stage < stage:
        return [(value, member.stage)]
    return [(operand, stage) for operand in member.recipe.inputs]


def _costs_much(plan: Plan, value: SSAValue, stage: int) -> bool:
    """Whether computing a full value in `stage` from memory, row values and what is kept is more than cheap."""
    work, seen, pending = 0, {value}, [value]
    while pending and work <= plan.recompute:
        current = pending.pop()
        member = plan.members.get(current)
        if member is None or member.kind is not Kind.FULL:
            work += 1 if isinstance(d.type_of(current), ShapedType) and member is None else 0
        elif current in plan.kept and plan.kept[current] < stage:
            work += 1
        else:
            work += member.recipe.cost
            pending += [operand for operand in member.recipe.inputs if operand not in seen]
            seen.update(member.recipe.inputs)
    return work > plan.recompute
