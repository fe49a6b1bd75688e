"""The same memory in another shape, where strides can say it: on the host and inside of kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tilejit.backends.cuda.control_plane.host import Number
from tilejit.backends.cuda.text.values import Scalar

_Number = TypeVar("_Number", Number, Scalar)


def regrouped(
    dims: Sequence[tuple[_Number, _Number]],
    extents: Sequence[_Number],
    one: _Number,
    mul: Callable[[_Number, _Number], _Number],
    same: Callable[[_Number, _Number], bool],
) -> tuple[_Number, ...] | None:
    """Strides of a view of dims (extent, stride) with gaps: dims may be split, and merged where they follow each other without a gap."""
    pending = [dim for dim in dims if dim[0].const != 1]
    if not all(isinstance(extent.const, int) for extent in (*extents, *(extent for extent, _ in pending))):
        kept = [extent for extent in extents if extent.const != 1]
        if len(kept) != len(pending) or not all(same(new, old) for new, (old, _) in zip(kept, pending, strict=True)):
            return None
        rest = iter(pending)
        return tuple(one if extent.const == 1 else next(rest)[1] for extent in extents)
    if any(extent.const == 0 for extent in extents):
        return (one,) * len(extents)  # nothing is there to be found
    strides: list[_Number] = []
    left, stride, end, is_open = 1, one, one, False
    for extent in reversed(extents):
        size = int(extent.const or 1)
        if size == 1:
            strides.append(one)
            continue
        if not is_open:
            if not pending:
                return None
            inner, stride = pending.pop()
            left, end, is_open = int(inner.const or 0), mul(stride, inner), True
        while left % size and pending:
            outer, step = pending.pop()
            if not same(step, end):
                return None
            left *= int(outer.const or 0)
            end = mul(step, outer)
        if left % size:
            return None
        strides.append(stride)
        stride = mul(stride, extent)
        left //= size
        is_open = left != 1
    return None if pending or is_open else tuple(reversed(strides))
