"""The same memory in another shape, where strides can say it."""

from __future__ import annotations

from collections.abc import Sequence

from tilejit.backends.cuda import host
from tilejit.backends.cuda.host import Axis, Memory, Number


def reshaped(source: Memory, extents: Sequence[Number]) -> tuple[Axis, ...] | None:
    """Axes of a view of a buffer with gaps: dims may be split, and merged where they follow each other without a gap."""
    old = [axis for axis in source.axes if axis.extent.const != 1]
    if any(not isinstance(axis.extent.const, int) for axis in old) or any(not isinstance(extent.const, int) for extent in extents):
        kept = [extent for extent in extents if extent.const != 1]
        if len(kept) != len(old) or not all(host.same(a, b.extent) for a, b in zip(kept, old, strict=True)):
            return None
        rest = iter(old)
        return tuple(Axis(extent, host.number(1)) if extent.const == 1 else next(rest) for extent in extents)
    axes: list[Axis] = []
    left, stride, group = 1, host.number(1), host.number(1)
    pending = list(old)
    open_ = False
    for extent in reversed(extents):
        size = extent.const
        assert isinstance(size, int)
        if size == 1:
            axes.append(Axis(extent, host.number(1)))
            continue
        if not open_:
            if not pending:
                return None
            last = pending.pop()
            left, stride, open_ = int(last.extent.const or 0), last.stride, True
            group = host.mul(last.stride, last.extent)
        while left % size and pending:
            outer = pending.pop()
            if not host.same(outer.stride, group):
                return None
            left *= int(outer.extent.const or 0)
            group = host.mul(outer.stride, outer.extent)
        if left % size:
            return None
        axes.append(Axis(extent, stride))
        stride = host.mul(stride, extent)
        left //= size
        open_ = left != 1
    return None if pending or open_ else tuple(reversed(axes))
