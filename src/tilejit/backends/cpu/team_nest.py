"""Large loop nests on several threads: each takes rows, or stretches of columns where there is only one row; every cell is computed as ever."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from tilejit.backends.cpu import team
from tilejit.backends.cpu.emit import Index, Value
from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.nest import Box, Walk

if TYPE_CHECKING:
    from tilejit.backends.cpu.group import GroupWriter

STRETCH = 4096
"""Columns of a trip, where a nest has one row: whole vectors, whole cache lines."""
_CELL_PS, _WORK_PS = 100, 30
"""Picoseconds of moving a cell, and of a unit of work on it."""


def share_rows(group: GroupWriter) -> bool:
    """Write the nest of a group as a task if it may be worth it; False: it is for one thread."""
    if any(write.store is not None and write.store.static("atomic") for write in group.plan.writes):
        return False
    if any(array.tokens & group.read_tokens for array in (*group.store_boxes.values(), *group.output_arrays.values())):
        return False
    e, extents = group.e, group.box.extents
    one_row = len(extents) == 1
    if one_row and group.plan.has_rows:
        return False
    count: Index = extents[0]
    cells: Index = STRETCH
    if one_row:
        count = _stretches(group, extents[0])
    else:
        cells = 1
        for extent in extents[1:]:
            cells = e.mul(cells, extent)
    estimate = _nanoseconds(group, cells)
    if not team.is_worth_it(count, estimate):
        return False

    def body(inner: FunctionWriter, captures: team.Captures, begin: Value, end: Value) -> None:
        part = copy.copy(group)
        part.f, part.e = inner, inner.e
        walks = [Walk(captures.value(walk.pointer), walk.dtype, [captures.index(stride) for stride in walk.strides]) for walk in group.box.walks]
        part.box = Box([captures.index(extent) for extent in extents], walks)
        part.places = dict(group.places)
        if one_row:
            begin, end = (inner.e.i64(inner.e.min(inner.e.mul(at, STRETCH), part.box.extents[0])) for at in (begin, end))
        part.box.narrow(inner.e, begin, end)
        part.nest([])

    ops = [item.op for item in group.by_result.values()]
    task, args = team.write_range_task(group.f, ops, body)
    team.run_task(group.f, task, args, count, estimate)
    return True


def _stretches(group: GroupWriter, columns: Index) -> Index:
    if isinstance(columns, int):
        return -(-columns // STRETCH)
    return group.e.inst("i64", f"sdiv i64 {group.e.i64(group.e.add(columns, STRETCH - 1)).text}, {STRETCH}")


def _nanoseconds(group: GroupWriter, cells: Index) -> Index:
    """What computing so many cells takes, roughly."""
    each = _CELL_PS + _WORK_PS * sum(item.cost for item in group.by_result.values())
    picoseconds = group.e.mul(cells, each)
    if isinstance(picoseconds, int):
        return max(1, picoseconds // 1000)
    return group.e.max(group.e.inst("i64", f"sdiv {picoseconds}, 1000"), 1)
