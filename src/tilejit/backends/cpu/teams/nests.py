"""Large loop nests on several threads: each takes rows, or columns where rows are folded or there is only one; every cell is computed as ever."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.backends.cpu.nests import in_registers
from tilejit.backends.cpu.nests.fold import ColumnFold
from tilejit.backends.cpu.nests.nest import Box, Walk
from tilejit.backends.cpu.teams import team
from tilejit.passes.cost import CELL_PS, WORK_PS

if TYPE_CHECKING:
    from tilejit.backends.cpu.nests.group import GroupWriter

def share(group: GroupWriter, folds: Sequence[ColumnFold]) -> bool:
    """Write the nest of a group as a task if it may be worth it; False: it is for one thread."""
    if not group.schedule.threads:
        return False
    if any(write.store is not None and write.store.static("atomic") for write in group.plan.writes):
        return False
    if any(array.tokens & group.read_tokens for array in (*group.store_boxes.values(), *group.output_arrays.values())):
        return False
    e, extents = group.e, group.box.extents
    by_columns = len(extents) == 1 or bool(folds)
    if by_columns and group.plan.has_rows and not _only_folds(group):
        return False
    unit = group.schedule.stretch if by_columns else 1
    count = _pieces(group, extents[-1], unit) if by_columns else extents[0]
    cells: Index = unit
    for extent in extents[:-1] if by_columns else extents[1:]:
        cells = e.mul(cells, extent)
    estimate = _nanoseconds(group, cells)
    if not team.is_worth_it(count, estimate):
        return False

    def body(inner: FunctionWriter, captures: team.Captures, begin: Value, end: Value) -> None:
        part = copy.copy(group)
        part.f, part.e = inner, inner.e
        walks = [
            Walk(captures.value(walk.pointer), walk.dtype, [captures.index(stride) for stride in walk.strides], origin=walk.origin) for walk in group.box.walks
        ]
        part.box = Box([captures.index(extent) for extent in extents], walks)
        part.places = dict(group.places)
        if by_columns:
            begin, end = (inner.e.i64(inner.e.min(inner.e.mul(at, unit), part.box.extents[-1])) for at in (begin, end))
        part.box.narrow(inner.e, -1 if by_columns else 0, begin, end)
        own = [item.in_group(part) for item in folds]
        if in_registers.applies(part, own):
            with inner.e.when(inner.e.icmp("eq", part.box.extents[-1], unit), "narrow"):
                in_registers.fold_rows(part, own, unit)
                inner.e.void("ret i64 0")
                inner.e.place(inner.e.fresh("unreached"))
        part.nest(own)

    ops = [item.op for item in group.by_result.values()]
    task, args = team.write_range_task(group.f, ops, body)
    team.run_task(group.f, task, args, count, estimate)
    return True


def _only_folds(group: GroupWriter) -> bool:
    """Whether rows matter only because they are folded into one: columns are then independent."""
    recipes = [member.recipe for member in group.plan.members.values()]
    return not group.plan.row_reductions and not any(item.masks or item.is_mask or item.blocks for item in recipes) and not group.plan.has_row_values


def _pieces(group: GroupWriter, columns: Index, unit: int) -> Index:
    if isinstance(columns, int):
        return -(-columns // unit)
    return group.e.inst("i64", f"sdiv i64 {group.e.i64(group.e.add(columns, unit - 1)).text}, {unit}")


def _nanoseconds(group: GroupWriter, cells: Index) -> Index:
    """What computing so many cells takes, roughly."""
    each = CELL_PS + WORK_PS * sum(item.cost for item in group.by_result.values())
    picoseconds = group.e.mul(cells, each)
    if isinstance(picoseconds, int):
        return max(1, picoseconds // 1000)
    return group.e.max(group.e.inst("i64", f"sdiv {picoseconds}, 1000"), 1)
