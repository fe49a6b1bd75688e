"""Types of windows: `x[1:, s]` of a tensor or tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tilejit.jit.specialize.forms import Form, form_of
from tilejit.jit.specialize.structural_types import FreshDim
from tilejit.jit.specialize.values import UNKNOWN, Abstract, RuntimeValue, Static
from tilejit.types.values import ANY, BufferType, Dim, TileType


def window(base: BufferType | TileType, indices: Sequence[Abstract | slice], fresh: FreshDim) -> Abstract:
    """The type of `base[…]`: slices keep dims, integers drop them, None adds one, missing ones are whole."""
    dotted = [place for place, index in enumerate(indices) if isinstance(index, Static) and index.value is ...]
    real = [index for index in indices if not (isinstance(index, Static) and (index.value is ... or index.value is None))]
    if len(real) > len(base.shape) or len(dotted) > 1:
        return UNKNOWN
    dots = dotted[0] if dotted else len(indices)
    shape: list[Dim] = []
    valid: list[Dim] = []
    extents = iter(zip(base.shape, base.valid if isinstance(base, TileType) else base.shape, strict=True))
    for index in (*indices[:dots], *[slice(None)] * (len(base.shape) - len(real)), *indices[dots + 1 :]):
        if isinstance(index, Static) and index.value is None:
            shape.append(1)
            valid.append(1)
        elif isinstance(index, slice):
            whole, filled = next(extents)
            shape.append(_slice_extent(index, whole, partial(_same, whole) if base.level == "tile" else fresh))  # tiles have constant shapes
            valid.append(filled if index == slice(None) else shape[-1] if filled == whole else ANY)
        else:
            next(extents)
    if not shape:
        return RuntimeValue(base.dtype)
    out = tuple(shape)
    return BufferType(out, base.dtype) if isinstance(base, BufferType) else TileType(out, base.dtype, tuple(valid), base.space)


def _same(extent: Dim) -> Dim:
    return extent


def _constant(index: slice) -> bool:
    return all(part is None or (isinstance(part, Static) and isinstance(part.value, int)) for part in (index.start, index.stop))


def _slice_extent(index: slice, extent: Dim, fresh: Callable[[], Dim]) -> Dim:
    """The size of a window along one dim: a number where that is known, else an extent of its own. That each end lies inside is for the front end to check."""
    if isinstance(index.step, int):
        return max(0, index.step)
    if isinstance(index.step, Static) and isinstance(step := index.step.value, int) and step not in (0, 1):
        if not isinstance(extent, int) or not _constant(index):
            return fresh()
        first, last = (None if part is None else part.value for part in (index.start, index.stop))
        return len(range(*slice(first, last, step).indices(extent)))
    whole = form_of(extent)
    start = Form() if index.start is None else _from_the_front(form_of(index.start), whole)
    stop = whole if index.stop is None else _from_the_front(form_of(index.stop), whole)
    if start is None or stop is None:
        return fresh()
    size = stop.plus(start.times(-1)).dim()
    return max(0, size) if isinstance(size, int) else size


def _from_the_front(end: Form | None, whole: Form | None) -> Form | None:
    """An end of a slice; a negative number counts from the end of the tensor."""
    if end is None or end.terms or end.constant >= 0:
        return end
    return whole.plus(end) if whole is not None else None
