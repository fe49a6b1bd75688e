"""Reductions over rows for so few columns that registers hold all accumulators: nothing is written before the last row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilejit.backends.cpu.nests.cells import Cells
from tilejit.backends.cpu.nests.fold import ColumnFold

if TYPE_CHECKING:
    from tilejit.backends.cpu.nests.group import GroupWriter


def applies(group: GroupWriter, folds: Sequence[ColumnFold]) -> bool:
    """Whether a group does nothing but such reductions, of all rows."""
    plain = not any(item.reduction.positions or item.member.stage for item in folds)
    return bool(folds) and plain and len(group.box.extents) == 2 and not group.plan.writes and not group.plan.kept and all(map(_of_all_rows, folds))


def _of_all_rows(item: ColumnFold) -> bool:
    """Where what is reduced has one row, those of the nest may be rows of the results."""
    walk = item.group.places["values", item.member.recipe.result].walk
    return item.group.box.walks[walk].strides[0] == 0


def fold_rows(group: GroupWriter, folds: Sequence[ColumnFold], columns: int) -> None:
    """All rows of so many columns, each column in the order of its rows."""
    e, walks = group.e, group.box.walks
    with e.loop(0, group.box.extents[0], carried=[item.first(columns) for item in folds], name="row") as loop:
        e.look()
        group.pointers = [e.offset(walk.pointer, e.mul(loop.iv, walk.strides[0]), walk.dtype.llvm) for walk in walks]
        group.row_values = {}
        group.hoist()
        cells = Cells(group, 0, columns, 0)
        loop.next = [item.joined(cells, old, columns) for item, old in zip(folds, loop.carried, strict=True)]
    group.pointers = [walk.pointer for walk in walks]
    for item, total in zip(folds, loop.results, strict=True):
        item.put(Cells(group, 0, columns, 0), total)
