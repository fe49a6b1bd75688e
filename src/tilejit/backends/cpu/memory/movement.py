"""Ops that rearrange values: views where memory permits, copies where it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from xdsl.ir import OpResult, SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.lanes.registers import lane_constant
from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.memory.storage import Array, element_count, permuted, row_major, sub_box, wanted_count
from tilejit.backends.cpu.memory.views import aim_at_store, stays_unchanged
from tilejit.backends.cpu.nests.nest import copy_box, fill_box
from tilejit.backends.cpu.nests.transpose import line_of, rows_together, transpose_into
from tilejit.backends.cpu.teams.copies import share_copy
from tilejit.dtypes import DType
from tilejit.errors import Span
from tilejit.ops.movement import VALID_HELP
from tilejit.ops.pad import pad_cell
from tilejit.ops.reshaping import moved_region
from tilejit.ops.shapes import steps_of
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args
from tilejit.types.values import static_shape


def copy_into(f: FunctionWriter, value: SSAValue, source: Array, span: Span | None) -> None:
    """Materialise `value` as a copy of `source`."""
    array = f.result_array(value, source.shape, source.valid, span)
    copy_box(f.e, array, source, source.valid)
    f.values[value] = array


def operand(f: FunctionWriter, op: d.RowOp, name: str) -> Array:
    return f.array(value_of(apply_args(op)[name]))


def scalars(f: FunctionWriter, op: d.ApplyOp, name: str) -> list[Index] | None:
    """A list of integer operands, or None when it was left out."""
    values = apply_args(op).get(name)
    if values is None:
        return None
    assert isinstance(values, list)
    return f.indices(values)


def bind_view(f: FunctionWriter, op: d.ApplyOp, view: Array) -> None:
    """The result is a view of its operand, or a copy when that memory changes too early."""
    result = op.results[0]
    if result in f.targets or not stays_unchanged(f, op, result):
        copy_into(f, result, view, op.span)
    else:
        f.values[result] = replace(view, owned=False)


def result_of(f: FunctionWriter, op: d.ApplyOp, shape: Sequence[Index], valid: Sequence[Index]) -> Array:
    """Memory for a result that is computed here, straight in a store's place when possible."""
    result = op.results[0]
    assert isinstance(result, OpResult)
    aim_at_store(f, result)
    array = f.result_array(result, shape, valid, op.span)
    f.values[result] = array
    return array


# padding ----------------------------------------------------------------------------------------------------------------


def write_fillpad(f: FunctionWriter, op: d.ApplyOp) -> None:
    source = operand(f, op, "input")
    shape = scalars(f, op, "shape") or list(source.shape)
    if any(not isinstance(new, int) or not isinstance(old, int) for new, old in zip(shape, source.shape, strict=True)):
        for axis, (new, old) in enumerate(zip(shape, source.shape, strict=True)):
            if new != old:
                text = f"fillpad_expand: extent {{0}} in dim {axis} is smaller than {{1}}"
                f.fail_if(f.e.icmp("slt", new, old), Failure("shape", text, op.span), [new, old])
    target = result_of(f, op, shape, shape)
    copy_box(f.e, target, source, source.valid)
    fill_outside(f, target, source.valid, pad_lane(apply_args(op)["pad_value"], source.dtype))


def pad_lane(pad_value: object, dtype: DType) -> Value:
    """The element that a pad value stands for."""
    cell: Any = pad_cell(pad_value, dtype)
    return lane_constant(dtype, cell if isinstance(cell, int) else float(cell), 1)


def fill_outside(f: FunctionWriter, target: Array, valid: Sequence[Index], value: Value) -> None:
    """Fill what lies outside a box at the origin: per axis, the slab behind the box."""
    e = f.e
    for axis, (inside, extent) in enumerate(zip(valid, target.shape, strict=True)):
        if inside == extent:
            continue
        offsets: list[Index] = [0] * target.rank
        offsets[axis] = inside
        sizes = [*valid[:axis], e.sub(extent, inside), *target.shape[axis + 1 :]]
        fill_box(e, sub_box(e, target, offsets, sizes), value, sizes)


# axes -------------------------------------------------------------------------------------------------------------------


def _swapped(rank: int, first: int, second: int) -> list[int]:
    axes = list(range(rank))
    axes[first], axes[second] = axes[second], axes[first]
    return axes


_MANY = 16
"""Stretches that are enough for the threads of most machines."""


def write_transpose(f: FunctionWriter, op: d.ApplyOp) -> None:
    args = apply_args(op)
    array = f.array(value_of(args["input"]))
    first, second = args.get("axis1", -1), args.get("axis2", -2)
    assert isinstance(first, int) and isinstance(second, int)
    view = permuted(array, _swapped(array.rank, first % array.rank, second % array.rank))
    if _only_matmuls(op.results[0]) and stays_unchanged(f, op, op.results[0]):
        f.values[op.results[0]] = view
        return
    target = result_of(f, op, view.shape, view.valid)
    rows, size = view.valid[0], target.dtype.get_byte()
    for extent in view.valid:
        size = size * extent if isinstance(extent, int) else 0
    unit = line_of(target.dtype) if isinstance(rows, int) and rows < _MANY * rows_together(target.dtype) else rows_together(target.dtype)
    chosen = f.unit.module.schedules.transpose(f.e.name)
    share_copy(f, partial(transpose_into, chosen=chosen, whole_bytes=size), target, view, view.valid, unit=unit, cost=4)


def _only_matmuls(value: SSAValue) -> bool:
    """Whether every user takes operands with any strides."""
    return all(isinstance(use.operation, d.ApplyOp) and "mat" in use.operation.op and not use.operation.op.endswith("mx") for use in value.uses)


def write_concat(f: FunctionWriter, op: d.ApplyOp) -> None:
    e = f.e
    left, right = operand(f, op, "src0"), operand(f, op, "src1")
    rows = left.valid[0] if left.valid[0] == right.valid[0] else e.min(left.valid[0], right.valid[0])
    target = result_of(f, op, [left.shape[0], e.add(left.shape[1], right.shape[1])], [rows, e.add(left.valid[1], right.valid[1])])
    copy_box(e, target, left, [rows, left.valid[1]])
    copy_box(e, sub_box(e, target, [0, left.valid[1]], [rows, right.valid[1]]), right, [rows, right.valid[1]])


def write_every(f: FunctionWriter, op: d.ApplyOp) -> None:
    e, source = f.e, operand(f, op, "input")
    steps = steps_of(apply_args(op)["steps"], source.rank)
    shift: Index = 0
    for extent, stride, step in zip(source.shape, source.strides, steps, strict=True):
        if step < 0:
            shift = e.add(shift, e.mul(e.sub(extent, 1), stride))
    shape, valid = ([_steps_in(e, extent, step) for extent, step in zip(extents, steps, strict=True)] for extents in (source.shape, source.valid))
    strides = tuple(e.mul(stride, step) for stride, step in zip(source.strides, steps, strict=True))
    view = replace(source, pointer=e.offset(source.pointer, shift, source.dtype.llvm), shape=tuple(shape), strides=strides, valid=tuple(valid))
    # Lanes that lie apart are slow to read more than once.
    copy_into(f, op.results[0], view, op.span)


def _steps_in(e: Emitter, extent: Index, step: int) -> Index:
    if abs(step) == 1:
        return extent
    last = e.add(extent, abs(step) - 1)
    return last // abs(step) if isinstance(last, int) else e.inst("i64", f"udiv {last}, {abs(step)}")


# the same elements ------------------------------------------------------------------------------------------------------


def write_same(f: FunctionWriter, op: d.ApplyOp) -> None:
    bind_view(f, op, f.array(op.args[0]))


def write_set_valid(f: FunctionWriter, op: d.ApplyOp) -> None:
    args = apply_args(op)
    array = f.array(op.args[0])
    valid: list[Index] = []
    for axis, name in enumerate(("valid_rows", "valid_cols")):
        index, extent = f.index(value_of(args[name])), array.shape[axis]
        if not isinstance(index, int) or not isinstance(extent, int):
            failure = Failure("bounds", f"set_validshape: {name} is {{0}}, the extent is {{1}}", op.span, VALID_HELP)
            f.fail_if(f.e.icmp("ugt", index, extent), failure, [index, extent])
        valid.append(index)
    bind_view(f, op, array.with_valid(valid))


def dense(f: FunctionWriter, value: SSAValue, span: Span | None) -> Array:
    """The value without gaps: itself, or a copy."""
    array = f.array(value)
    if array.dense:
        return array
    copy = f.new_array(array.dtype, array.shape, array.valid, span)
    copy_box(f.e, copy, array, array.valid)
    return copy


def write_reshape(f: FunctionWriter, op: d.ApplyOp) -> None:
    e = f.e
    source = dense(f, op.args[0], op.span)
    wanted = scalars(f, op, "shape")
    type = d.shaped_type(op.results[0])
    assert wanted is not None
    shape = [dim if isinstance(dim, int) else extent for dim, extent in zip(type.shape, wanted, strict=True)]
    for axis, extent in enumerate(shape):
        if not isinstance(extent, int):
            f.fail_if(e.icmp("slt", extent, 0), Failure("shape", f"reshape: extent {{0}} in dim {axis} is negative", op.span), [extent])
    have, want = element_count(e, source.shape), wanted_count(e, shape)
    if not (isinstance(have, int) and have == want):
        failure = Failure("shape", "reshape keeps the number of elements: {0} become {1}", op.span)
        f.fail_if(e.icmp("ne", have, want), failure, [have, want])
    bind_view(f, op, replace(source, shape=tuple(shape), strides=row_major(e, shape), valid=tuple(_moved_valid(e, op, source, shape))))


def _moved_valid(e: Emitter, op: d.ApplyOp, source: Array, shape: list[Index]) -> list[Index]:
    """What is valid of a reshaped value."""
    old, new = d.shaped_type(op.args[0]), static_shape(d.shaped_type(op.results[0]).shape)
    before = static_shape(old.shape)
    if old.valid == old.shape or before is None or new is None:
        return shape
    region = moved_region(before, old.valid, new)
    assert region is not None
    return [extent if isinstance(extent, int) else e.mul(source.valid[extent.axis], extent.factor) for extent in region]


def write_reinterpret(f: FunctionWriter, op: d.ApplyOp) -> None:
    e = f.e
    source = dense(f, op.args[0], op.span)
    type = d.shaped_type(op.results[0])
    wanted = scalars(f, op, "shape")

    def rescaled(extent: Index) -> Index:
        size = e.mul(extent, source.dtype.get_byte())
        return size // type.dtype.get_byte() if isinstance(size, int) else e.inst("i64", f"sdiv {size}, {type.dtype.get_byte()}")

    shape = wanted or [*source.shape[:-1], rescaled(source.shape[-1])]
    valid = [*source.valid[:-1], rescaled(source.valid[-1])] if wanted is None else shape if tuple(shape) != source.shape else list(source.valid)
    view = Array(source.pointer, type.dtype, tuple(shape), row_major(e, shape), tuple(valid), source.tokens)
    bind_view(f, op, view)


def reshaped_strides(f: FunctionWriter, array: Array, shape: Sequence[Index], dtype: DType, fail_if: Callable[[Value], None]) -> tuple[Index, ...]:
    """Strides of a buffer's view with another shape; when only the run can tell, a buffer with gaps fails."""
    e = f.e
    if array.dense:
        return row_major(e, shape)
    if dtype.get_byte() == array.dtype.get_byte():
        found = _without_copy(array, shape)
        if found is not None:
            return found
    expected = row_major(e, array.shape)
    for extent, stride, dense_stride in zip(array.shape, array.strides, expected, strict=True):
        if stride != dense_stride and extent != 1:
            differs, matters = e.icmp("ne", stride, dense_stride), e.icmp("sgt", extent, 1)
            fail_if(e.inst("i1", f"and {differs}, {matters.text}"))
    return row_major(e, shape)


def _without_copy(array: Array, shape: Sequence[Index]) -> tuple[Index, ...] | None:
    """Strides of a reshape that needs no copy: only dims of one element come and go, or groups of static dims have equal size, each without gaps inside."""
    old_dims, new_dims = ([extent for extent in extents if extent != 1] for extents in (array.shape, shape))
    if old_dims == new_dims or len(old_dims) == len(new_dims) == 1:  # both have as many elements
        kept = iter(stride for extent, stride in zip(array.shape, array.strides, strict=True) if extent != 1)
        return tuple(1 if extent == 1 else next(kept) for extent in shape)
    if any(not isinstance(item, int) for item in (*array.shape, *array.strides, *shape)):
        return None
    old = [(int(n), int(s)) for n, s in zip(array.shape, array.strides, strict=True) if n != 1]  # type: ignore[arg-type]
    out: list[Index] = []
    new = [int(n) for n in shape]  # type: ignore[arg-type]
    i = 0
    j = 0
    while j < len(new):
        if new[j] == 1:
            out.append(1)
            j += 1
            continue
        if i >= len(old):
            return None
        size, stop, count, end = old[i][0], i + 1, new[j], j + 1
        while size != count:
            if size < count:
                if stop >= len(old) or old[stop - 1][1] != old[stop][0] * old[stop][1]:
                    return None
                size *= old[stop][0]
                stop += 1
            else:
                if end >= len(new):
                    return None
                count *= new[end]
                end += 1
        step = old[stop - 1][1]
        strides: list[Index] = []
        for extent in reversed(new[j:end]):
            strides.append(step)
            step *= extent
        out += reversed(strides)
        i, j = stop, end
    return tuple(out)
