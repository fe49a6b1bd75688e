"""What a kernel writes into one output, and the least shape that holds it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tilejit.dtypes import DType
from tilejit.jit.specialize.forms import Form
from tilejit.jit.specialize.values import Abstract, RuntimeValue, Static
from tilejit.types.values import BufferType, Dim, TileType


@dataclass(frozen=True, slots=True)
class Inside:
    """The end of a write that follows from where the output ends, which others have to say."""

    most: Form | None = None
    """Where it ends if the output does not cut it; None: it is counted from the end of the output."""


End = Form | Inside | None
"""The first cell past a write in one dimension; None: known only at run time."""


@dataclass(slots=True)
class Writes:
    """What a kernel writes into one output."""

    whole: BufferType | TileType | None = None
    """The value of `out[:] = v`."""
    whole_place: ast.AST | None = None
    ends: list[tuple[End, ...]] = field(default_factory=list[tuple[End, ...]])
    places: list[ast.AST] = field(default_factory=list[ast.AST])
    shorter: set[int] = field(default_factory=set[int])
    """Writes of numbers, by their place in the lists: of dimensions that they do not name they say nothing."""
    dtype: DType | None = None

    def note(self, place: ast.AST, ends: Sequence[End], value: Abstract) -> None:
        """A write that ends there in each dimension."""
        self.note_dtype(value)
        if isinstance(value, RuntimeValue | Static):
            self.shorter.add(len(self.ends))
        self.ends.append(tuple(ends))
        self.places.append(place)

    def note_dtype(self, value: Abstract) -> None:
        if isinstance(value, BufferType | TileType | RuntimeValue | Static):
            self.dtype = self.dtype or value.dtype

    def shape(self, declared: Mapping[int, Dim]) -> tuple[Dim, ...] | None:
        """The least shape that holds everything written; `declared`: extents that the kernel makes dynamic itself."""
        if self.whole is not None:
            return self.whole.shape
        if not self._is_of_one_rank():
            return None
        out = [declared[axis] if axis in declared else self._extent(axis) for axis in range(self._rank())]
        return tuple(dim for dim in out if dim is not None) if None not in out else None

    def _rank(self) -> int:
        return max(map(len, self.ends), default=0)

    def _is_of_one_rank(self) -> bool:
        return bool(self.ends) and all(ends and (len(ends) == self._rank() or row in self.shorter) for row, ends in enumerate(self.ends))

    def _along(self, axis: int) -> list[End]:
        return [ends[axis] for ends in self.ends if axis < len(ends)]

    def _extent(self, axis: int) -> Dim | None:
        largest = self._largest(axis)
        reached = largest is not None and largest != Form() and all(_is_reached(end, largest) for end in self._along(axis))
        return largest.dim() if largest is not None and reached else None

    def _largest(self, axis: int) -> Form | None:
        """The largest of the ends that say where the output ends."""
        known = [end for end in self._along(axis) if isinstance(end, Form)]
        return next((end for end in known if all(end.covers(other) for other in known)), None)

    def culprit(self) -> tuple[ast.AST, bool] | None:
        """The first write whose end is not known, and whether that is because it follows from where the output ends."""
        rows = list(zip(self.places, self.ends, strict=True))
        unknown = next((place for place, ends in rows if None in ends or not ends), None)
        if unknown is not None:
            return unknown, False
        cut = (place for place, ends in rows for axis, end in enumerate(ends) if isinstance(end, Inside) and not _is_reached(end, self._largest(axis)))
        return next(((place, True) for place in cut), None)


def _is_reached(end: End, largest: Form | None) -> bool:
    """Whether an output that ends at `largest` holds a write."""
    if largest is None or end is None:
        return False
    most = end.most if isinstance(end, Inside) else end
    return most is None or largest.covers(most)


def end_of_steps(part: ast.Slice, step: int, count: Form | None, upper: Callable[[ast.expr], Form | None], behind: Callable[[ast.expr | None], int]) -> End:
    """Where a write into a slice ends that has a step, or an end that is `behind` cells before that of the output; `count`: how many cells it takes."""
    first, last = (part.lower, part.upper) if step > 0 else (part.upper, part.lower)
    if behind(first):
        return Inside() if last is None or behind(last) else None
    start = Form() if first is None else upper(first)
    beyond = Form(1 if step < 0 else 0)  # going back, the end of a slice is not part of it, and its start is
    if start is None:
        return None
    if last is not None and not behind(last):
        end = upper(last)
        return end.plus(beyond) if end is not None else None
    if count is None:
        return Inside()
    if first is not None:
        start = start.plus(beyond)
    if last is not None:
        start = start.plus(Form(behind(last))).plus(beyond.times(-1))
    return start if count == Form() else start.plus(count.plus(Form(-1)).times(abs(step))).plus(Form(1))
