"""Bounds checks as code: one branch per window or element, which dim it was is found out only on failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilejit.backends import checks
from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.backends.cpu.memory.storage import Array
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d


def clamp(f: FunctionWriter, value: Index, upper: Index) -> Index:
    """`value` moved into 0..upper."""
    return f.e.max(0, f.e.min(value, upper))


def check_box(f: FunctionWriter, op: d.LoadOp | d.StoreOp | d.WindowOp, array: Array, offsets: Sequence[Index], sizes: Sequence[Index]) -> list[Index]:
    """Make sure that a window lies inside its array; returns its sizes, narrowed when the op clamps."""
    e = f.e
    if op.static("clamp"):
        empty = _any(f, [_is_zero(f, size) for size in sizes])
        _branch(f, [_unless(f, _below_zero(f, offset), empty) for offset in offsets], _rows(op, offsets, sizes, array))
        return [clamp(f, e.sub(extent, offset), e.max(0, size)) for offset, size, extent in zip(offsets, sizes, array.shape, strict=True)]
    if not f.unit.options.check_bounds:
        return list(sizes)
    bad = [_outside(f, *dim) for dim in zip(offsets, sizes, array.shape, strict=True)]
    # Only a window's size may be negative: that of a load is clamped, that of a store is a valid extent.
    negative = [isinstance(op, d.WindowOp) and _below_zero(f, size) for size in sizes]
    if any(item is not False for item in bad):
        empty = _any(f, [_is_zero(f, size) for size in sizes])
        indexed = op.drop if isinstance(op, d.WindowOp) else ()  # an index is one of those that there are, whatever the other sides
        bad = [item if axis in indexed else _unless(f, item, empty) for axis, item in enumerate(bad)]
    _branch(f, [_either(f, a, b) for a, b in zip(bad, negative, strict=True)], _rows(op, offsets, sizes, array))
    return list(sizes)


Row = Callable[[int], tuple[Failure, Sequence[Index]]]
"""Axis → what to report about it."""


def _rows(op: d.LoadOp | d.StoreOp | d.WindowOp, offsets: Sequence[Index], sizes: Sequence[Index], array: Array) -> Row:
    return lambda axis: (checks.box_failure(op, axis), (offsets[axis], sizes[axis], array.shape[axis]))


def check_element(f: FunctionWriter, op: d.ReadOp | d.ElementWrite, array: Array, indices: Sequence[Index]) -> None:
    """Make sure that an index lies inside its array."""
    if not f.unit.options.check_bounds:
        return
    bad = [_not_below(f, index, extent) for index, extent in zip(indices, array.shape, strict=True)]
    _branch(f, bad, lambda axis: (checks.element_failure(op, axis), (indices[axis], array.shape[axis])))


Condition = Value | bool


def _branch(f: FunctionWriter, bad: Sequence[Condition], row: Row) -> None:
    """Fail with the first dim that is bad."""
    combined = _any(f, bad)
    if combined is False:
        return
    e = f.e
    stem = e.fresh("bounds")
    e.cbr(combined if isinstance(combined, Value) else Value("true", "i1"), f"{stem}.bad", f"{stem}.good")
    e.place(f"{stem}.bad")
    possible = [axis for axis, item in enumerate(bad) if item is not False]
    for axis in possible[:-1]:
        condition = bad[axis]
        f.fail_if(condition if isinstance(condition, Value) else Value("true", "i1"), *row(axis))
    f.fail(*row(possible[-1]))
    e.place(f"{stem}.good")


def _outside(f: FunctionWriter, offset: Index, size: Index, extent: Index) -> Condition:
    """Whether offset < 0 or offset + size > extent, for size >= 0."""
    if isinstance(offset, int) and isinstance(size, int) and isinstance(extent, int):
        return offset < 0 or offset + size > extent
    if offset == 0 and (size == extent or size == 0):
        return False
    e = f.e
    # As unsigned numbers, a negative offset or room is huge: offset <= extent - size needs both to be sound.
    room = e.sub(extent, size)
    below = _below_zero(f, room)
    past = e.icmp("ugt", offset, room)
    return _either(f, below, past)


def _below_zero(f: FunctionWriter, value: Index) -> Condition:
    return value < 0 if isinstance(value, int) else f.e.icmp("slt", value, 0)


def _is_zero(f: FunctionWriter, value: Index) -> Condition:
    return value == 0 if isinstance(value, int) else f.e.icmp("eq", value, 0)


def _not_below(f: FunctionWriter, index: Index, extent: Index) -> Condition:
    if isinstance(index, int) and isinstance(extent, int):
        return not 0 <= index < extent
    return f.e.icmp("uge", index, extent)


def _either(f: FunctionWriter, a: Condition, b: Condition) -> Condition:
    if a is False or b is True:
        return b
    if b is False or a is True:
        return a
    assert isinstance(a, Value) and isinstance(b, Value)
    return f.e.inst("i1", f"or i1 {a.text}, {b.text}")


def _unless(f: FunctionWriter, a: Condition, b: Condition) -> Condition:
    """a and not b."""
    if a is False or b is True:
        return False
    if b is False:
        return a
    assert isinstance(b, Value)
    negated = f.e.inst("i1", f"xor i1 {b.text}, true")
    return negated if a is True else f.e.inst("i1", f"and i1 {a.text}, {negated.text}")


def _any(f: FunctionWriter, items: Sequence[Condition]) -> Condition:
    out: Condition = False
    for item in items:
        out = _either(f, out, item)
    return out
