"""Other shapes of the same elements: what an extent of -1 stands for, and where a valid region goes: an origin box stays one, or the reshape is refused.

Both shapes fall into the smallest groups of dims with as many elements on either side; dims of extent 1 belong to none. A box is
a product of its parts in the groups, so it stays a box exactly when each part does: in a group of one dim on either side it is
the same, elsewhere it must be the first elements of the group, and end where a row of the new dims ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tilejit.errors import ShapeError
from tilejit.types.values import ANY, Dim, Shape, shape_text


class LeftOver(NamedTuple):
    """The extent that -1 stands for: `factor` times the old extents of `axes`, over `divisor` times the new extents at `places`."""

    factor: int
    axes: tuple[int, ...]
    divisor: int
    places: tuple[int, ...]

    @property
    def is_exact(self) -> bool:
        """Whether the division leaves nothing over, whatever the run-time extents are."""
        return self.divisor == 1 and not self.places


def left_over(old: Shape, new: Shape) -> LeftOver:
    """What is left for the one extent of -1 in a new shape; extents of one name cancel."""
    if new.count(-1) != 1 or any(isinstance(extent, int) and extent < 1 and extent != -1 for extent in new):
        raise ShapeError(f"reshape takes positive extents, and one of -1 for what is left, got {shape_text(new)}", help="write the other extents out")
    axes = [axis for axis, extent in enumerate(old) if not isinstance(extent, int)]
    places = [place for place, extent in enumerate(new) if not isinstance(extent, int)]
    for place in list(places):
        same = next((axis for axis in axes if old[axis] == new[place] != ANY), None)
        if same is not None:
            axes.remove(same)
            places.remove(place)
    total, rest = (math.prod(extent for extent in shape if isinstance(extent, int) and extent != -1) for shape in (old, new))
    if not axes and not places and total % rest:
        raise ShapeError(f"reshape: {shape_text(old)} cannot be {shape_text(new)}: {total} is not a multiple of {rest}", help="check the product of the extents")
    return LeftOver(*((total // rest, tuple(axes), 1) if total % rest == 0 else (total, tuple(axes), rest)), tuple(places))


class Scaled(NamedTuple):
    """A valid extent that only the run knows: that of `axis` of the old shape, times `factor`."""

    axis: int
    factor: int


Region = list[int | Scaled]
"""The valid extent of each new dim."""


def moved_region(old: Sequence[int], valid: Sequence[Dim], new: Sequence[int]) -> Region | None:
    """The valid region after a reshape, or None where it is not sure to be a box at the origin. Any name in `valid` is one of the run."""
    out = _moved_parts(old, valid, new)
    # Nothing is a box wherever it goes.
    return [0, *new[1:]] if out is None and 0 in valid else out


def _moved_parts(old: Sequence[int], valid: Sequence[Dim], new: Sequence[int]) -> Region | None:
    out: Region = list(new)
    spare = [axis for axis, extent in enumerate(new) if extent == 1]
    for place, axis in enumerate(axis for axis, extent in enumerate(old) if extent == 1):
        if place < len(spare):
            out[spare[place]] = _extent(axis, valid[axis])
        elif valid[axis] != 1:
            return None
    for before, after in _groups(old, new):
        if all(valid[axis] == old[axis] for axis in before):
            continue
        part = _moved(before, [old[axis] for axis in before], [valid[axis] for axis in before], [new[axis] for axis in after])
        if part is None:
            return None
        for axis, extent in zip(after, part, strict=True):
            out[axis] = extent
    return out


def _extent(axis: int, valid: Dim) -> int | Scaled:
    return valid if isinstance(valid, int) else Scaled(axis, 1)


def _groups(old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """The dims of both shapes that belong together, from the last to the first."""
    left = [axis for axis, extent in enumerate(old) if extent != 1]
    right = [axis for axis, extent in enumerate(new) if extent != 1]
    while left and right:
        before, after = [left.pop()], [right.pop()]
        while (have := math.prod(old[axis] for axis in before)) != (want := math.prod(new[axis] for axis in after)):
            if have < want:
                before.insert(0, left.pop())
            else:
                after.insert(0, right.pop())
        yield before, after


def _moved(axes: list[int], old: list[int], valid: list[Dim], new: list[int]) -> Region | None:
    """The part of a region in one group."""
    if len(old) == len(new) == 1:
        return [_extent(axes[0], valid[0])]
    start = next((place for place, n in enumerate(valid) if n != 1), len(valid) - 1)
    if valid[start + 1 :] != old[start + 1 :]:
        return None
    row, rows = math.prod(old[start + 1 :]), valid[start]
    known = rows if isinstance(rows, int) and rows > 0 else None
    most = row * (old[start] if known is None else known)
    for place, extent in enumerate(new):
        inner = math.prod(new[place + 1 :])
        if (row if known is None else most) % inner == 0 and most <= extent * inner:
            here = most // inner if known is not None else 0 if rows == 0 else Scaled(axes[start], row // inner)
            return [*([1] * place), here, *new[place + 1 :]]
    return None


def dims_of(region: Region) -> tuple[Dim, ...]:
    """The region as a type states it."""
    return tuple(extent if isinstance(extent, int) else ANY for extent in region)
