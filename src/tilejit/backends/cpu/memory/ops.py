"""Ops about buffers: made, seen otherwise, read and written."""

from __future__ import annotations

from contextlib import nullcontext

from tilejit import ops
from tilejit.backends import checks
from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.lanes.ops import apply_lane
from tilejit.backends.cpu.lanes.registers import lane_constant, load_lanes, store_lanes
from tilejit.backends.cpu.llvm.text import Index
from tilejit.backends.cpu.llvm.vector import binary, icmp, select
from tilejit.backends.cpu.memory import movement
from tilejit.backends.cpu.memory.guards import check_box, check_element, clamp
from tilejit.backends.cpu.memory.storage import Array, checked_product, element_count, row_major, sub_box, wanted_count
from tilejit.backends.cpu.memory.views import stays_unchanged
from tilejit.backends.cpu.nests.group import write_group
from tilejit.backends.cpu.nests.nest import fill_box
from tilejit.backends.cpu.rules import Nest, rule_of
from tilejit.backends.cpu.teams.atomic import locked, locks_of
from tilejit.ops.sizes import MAX_BYTES
from tilejit.tile_ir import dialect as d


def write_create(f: FunctionWriter, op: d.CreateOp) -> None:
    type = d.shaped_type(op.result)
    dynamic = iter(op.extents)
    shape = [dim if isinstance(dim, int) else f.index(next(dynamic)) for dim in type.shape]
    for axis, extent in enumerate(shape):
        if not isinstance(extent, int):
            f.fail_if(f.e.icmp("slt", extent, 0), checks.create_failure(op, axis), [extent])
    ring = f.rings.get(op)
    pointer = ring.pick(f) if ring else f.new_array(type.dtype, shape, span=op.span).pointer
    array = Array(pointer, type.dtype, tuple(shape), row_major(f.e, shape), tuple(shape), f.tokens(op.result))
    f.values[op.result] = array
    init = op.static("init")
    if init is not None:
        assert isinstance(init, int | float | bool)
        fill_box(f.e, array, lane_constant(type.dtype, init, 1), array.shape)


def write_window(f: FunctionWriter, op: d.WindowOp) -> None:
    buffer = f.array(op.buffer)
    offsets, sizes = f.indices(op.offsets), f.indices(op.extents)
    sizes = check_box(f, op, buffer, offsets, sizes)
    f.values[op.result] = sub_box(f.e, buffer, offsets, sizes, drop=op.drop)


def write_view(f: FunctionWriter, op: d.ViewOp) -> None:
    e = f.e
    buffer = f.array(op.buffer)
    type = d.shaped_type(op.result)
    dynamic = iter(op.extents)
    shape = tuple(dim if isinstance(dim, int) else f.index(next(dynamic)) for dim in type.shape)
    for axis, extent in enumerate(shape):
        if not isinstance(extent, int):
            f.fail_if(e.icmp("slt", extent, 0), checks.create_failure(op, axis), [extent])
    have = element_count(e, buffer.shape)
    if type.dtype.get_byte() != buffer.dtype.get_byte():
        size = e.mul(have, buffer.dtype.get_byte())
        have = size // type.dtype.get_byte() if isinstance(size, int) else e.inst("i64", f"sdiv {size}, {type.dtype.get_byte()}")
    want = wanted_count(e, shape)
    if not (isinstance(have, int) and have == want):
        f.fail_if(e.icmp("ne", have, want), checks.view_failure(op), [have, want])
    strides = movement.reshaped_strides(f, buffer, shape, type.dtype, lambda bad: f.fail_if(bad, checks.view_failure(op), [have, want]))
    f.values[op.result] = Array(buffer.pointer, type.dtype, shape, strides, shape, buffer.tokens)


def write_strided(f: FunctionWriter, op: d.StridedOp) -> None:
    e = f.e
    buffer, dtype = f.array(op.buffer), d.shaped_type(op.result).dtype
    start, shape, strides = f.index(op.start), tuple(f.indices(op.extents)), tuple(f.indices(op.strides))
    low, high = start, start
    empty: list[Index] = []
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        if not isinstance(extent, int):
            f.fail_if(e.icmp("slt", extent, 0), checks.create_failure(op, axis), [extent])
        if not isinstance(extent, int) or extent == 0:
            empty.append(extent)
        reach = _reach(f, op, extent, stride)
        low, high = e.add(low, e.min(reach, 0)), e.add(high, e.max(reach, 0))
    size = e.mul(element_count(e, buffer.shape), buffer.dtype.get_byte())
    have = size // dtype.get_byte() if isinstance(size, int) else e.inst("i64", f"sdiv {size}, {dtype.get_byte()}")
    if f.unit.options.check_bounds:
        bad = binary(e, "or", e.icmp("slt", low, 0), e.icmp("sge", high, have))
        for extent in empty:
            bad = binary(e, "and", bad, e.icmp("ne", extent, 0))
        f.fail_if(bad, checks.reach_failure(op), [low, high, have])
    f.values[op.result] = Array(e.offset(buffer.pointer, start, dtype.llvm), dtype, shape, strides, shape, buffer.tokens)


def _reach(f: FunctionWriter, op: d.StridedOp, extent: Index, stride: Index) -> Index:
    """How far a dim leads from its first element; a distance that no buffer has is a failure, so that sums of it fit."""
    steps = f.e.sub(extent, 1)
    if isinstance(steps, int) and isinstance(stride, int):
        return steps * stride
    reach, bad = checked_product(f.e, [steps, stride])
    # As an unsigned number, what lies below the lowest distance is huge.
    bad = binary(f.e, "or", bad, f.e.icmp("ugt", f.e.inst("i64", f"add {reach}, {MAX_BYTES}"), 2 * MAX_BYTES))
    f.fail_if(binary(f.e, "and", bad, f.e.icmp("sgt", extent, 0)), checks.reach_failure(op), [reach, reach, 0])
    return reach


def write_load(f: FunctionWriter, op: d.LoadOp) -> None:
    e = f.e
    buffer = f.array(op.buffer)
    type = d.shaped_type(op.result)
    shape = [dim for dim in type.shape if isinstance(dim, int)]
    sizes = [clamp(f, size, extent) for size, extent in zip(f.indices(op.valid), shape, strict=True)]
    offsets = f.indices(op.offsets)
    valid = check_box(f, op, buffer, offsets, sizes)
    view = sub_box(e, buffer, offsets, shape, valid)
    if stays_unchanged(f, op, op.result):
        f.values[op.result] = view
    else:
        movement.copy_into(f, op.result, view, op.span)


def write_store(f: FunctionWriter, op: d.StoreOp) -> None:
    write_group(f, [op], [])


def write_read(f: FunctionWriter, op: d.ReadOp) -> None:
    array, indices = f.array(op.source), f.indices(op.indices)
    check_element(f, op, array, indices)
    cell = sub_box(f.e, array, indices, [1] * array.rank)
    f.values[op.result] = load_lanes(f.e, array.dtype, cell.pointer, 1)


def write_write(f: FunctionWriter, op: d.WriteOp) -> None:
    array, indices = f.array(op.buffer), f.indices(op.indices)
    check_element(f, op, array, indices)
    cell = sub_box(f.e, array, indices, [1] * array.rank)
    store_lanes(f.e, array.dtype, cell.pointer, f.scalar(op.value), 1)


def write_atomic(f: FunctionWriter, op: d.AtomicOp) -> None:
    e, array, indices, value = f.e, f.array(op.buffer), f.indices(op.indices), f.scalar(op.value)
    check_element(f, op, array, indices)
    cell = sub_box(e, array, indices, [1] * array.rank)
    combine, locks = ops.table()[str(op.static("atomic"))].attrs["combine"], locks_of(f)
    with nullcontext() if locks is None else locked(e, locks, cell.pointer, array.dtype.get_byte()):
        old = load_lanes(e, array.dtype, cell.pointer, 1)
        if isinstance(combine, str):
            rule = rule_of(ops.table()[combine])
            assert isinstance(rule, Nest)
            value = apply_lane(e, rule.lane, array.dtype, [old, value], 1)
        if op.expected is not None:
            value = select(e, icmp(e, "eq", old, f.scalar(op.expected)), value, old)
        store_lanes(e, array.dtype, cell.pointer, value, 1)
    f.values[op.result] = old


def write_dim(f: FunctionWriter, op: d.DimOp) -> None:
    f.values[op.result] = f.e.i64(f.array(op.source).shape[op.axis])


def write_valid(f: FunctionWriter, op: d.ValidOp) -> None:
    f.values[op.result] = f.e.i64(f.array(op.source).valid[op.axis])
