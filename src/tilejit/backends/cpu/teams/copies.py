"""Large copies on several threads: each converts or turns some rows of the box."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.memory.storage import Array, sub_box
from tilejit.backends.cpu.teams import team
from tilejit.backends.cpu.teams.counts import quotient, quotient_up
from tilejit.passes.cost import CELL_PS

Move = Callable[[Emitter, Array, Array, Sequence[Index]], None]
"""Code that copies a box: (emitter, target, source, extents)."""


def share_copy(f: FunctionWriter, move: Move, target: Array, source: Array, extents: Sequence[Index], unit: int = 1, cost: int = 1) -> None:
    """Write a copy, shared out if it is large: so many rows at least are taken at once, and a cell costs so many times what moving it through a nest does."""
    axis = next((axis for axis, extent in enumerate(extents) if extent != 1), 0)
    count = quotient_up(f.e, extents[axis], unit)
    cells: Index = unit * cost * CELL_PS
    for extent in extents[axis + 1 :]:
        cells = f.e.mul(cells, extent)
    estimate = f.e.max(quotient(f.e, cells, 1000), 1)
    if target.same_place(source) or not team.is_worth_it(count, estimate):
        move(f.e, target, source, extents)
        return

    def body(inner: FunctionWriter, captures: team.Captures, begin: Value, end: Value) -> None:
        g = inner.e
        sizes = [captures.index(extent) for extent in extents]
        offsets: list[Index] = [0] * len(sizes)
        offsets[axis] = g.mul(begin, unit)
        sizes[axis] = g.sub(g.min(g.mul(end, unit), sizes[axis]), offsets[axis])
        to, origin = (sub_box(g, captures.array(array), offsets, sizes) for array in (target, source))
        move(g, to, origin, sizes)

    task, args = team.write_range_task(f, [], body)
    team.run_task(f, task, args, count, estimate)
