"""Ops on a window of a value: reading it is a view, replacing it works in place when nobody needs the old value."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import OpResult, SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.lanes.casts import convert_lane
from tilejit.backends.cpu.lanes.registers import round_to, store_lanes
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.backends.cpu.llvm.vector import binary
from tilejit.backends.cpu.memory.movement import bind_view, copy_into, fill_outside, operand, pad_lane, scalars
from tilejit.backends.cpu.memory.storage import Array, sub_box
from tilejit.backends.cpu.memory.views import is_last_use
from tilejit.backends.cpu.nests.nest import convert_box, copy_box, each
from tilejit.backends.cpu.nests.recipes import dtype_of
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args
from tilejit.types.enums import AtomicType


def check_inside(
    f: FunctionWriter, op: d.ApplyOp, verb: str, offsets: Sequence[Index], sizes: Sequence[Index], extents: Sequence[Index], clamp: bool = False
) -> None:
    """A window of a value must lie inside it."""
    e = f.e
    for axis, (offset, size, extent) in enumerate(zip(offsets, sizes, extents, strict=True)):
        if isinstance(offset, int) and isinstance(size, int) and isinstance(extent, int) and offset >= 0 and (clamp or offset + size <= extent):
            continue
        failure = Failure("bounds", f"{op.op} {verb} [{{0}}, {{1}}) of dim {axis}, which has extent {{2}}", op.span)
        end = e.add(offset, size)
        bad = e.icmp("slt", offset, 0)
        if not clamp:
            bad = binary(e, "or", bad, e.icmp("sgt", end, extent))
        f.fail_if(bad, failure, [offset, end, extent])


def take(
    f: FunctionWriter,
    op: d.ApplyOp,
    source: Array,
    offsets: Sequence[Index],
    shape: Sequence[Index],
    requested: Sequence[Index] | None = None,
    whole: bool = True,
    clamp: bool = False,
) -> Array:
    """The window of a value as a view; `whole`: all of it must lie inside, not only what is `requested`."""
    e = f.e
    wanted = shape if requested is None else requested
    check_inside(f, op, "reads", offsets, shape if whole else wanted, source.shape, clamp)
    if requested is not None:
        for want, size in zip(wanted, shape, strict=True):
            if not (isinstance(want, int) and isinstance(size, int)):
                f.fail_if(e.icmp("ugt", want, size), Failure("shape", f"{op.op}: a valid extent of {{0}} in a window of {{1}}", op.span), [want, size])
    valid: list[Index] = []
    for offset, want, there, extent in zip(offsets, wanted, source.valid, source.shape, strict=True):
        full = there == extent and not clamp
        valid.append(want if full else e.min(want, e.max(0, e.sub(there, offset))))
    return sub_box(e, source, offsets, shape, valid)


def write_slice(f: FunctionWriter, op: d.ApplyOp) -> None:
    args = apply_args(op)
    source = operand(f, op, "input")
    shape, offsets, requested = scalars(f, op, "shape"), scalars(f, op, "offset"), scalars(f, op, "valid_shape")
    assert shape is not None and offsets is not None
    view = take(f, op, source, offsets, shape, requested, d.shaped_type(op.results[0]).level == "tile", bool(args["clamp"]))
    drop = args["drop_dims"]
    axes = [axis % view.rank for axis in drop if isinstance(axis, int)] if isinstance(drop, tuple | list) else []
    if args["pad_value"] is not None:
        padded = f.new_array(view.dtype, view.shape, view.valid, op.span)
        copy_box(f.e, padded, view, view.valid)
        fill_outside(f, padded, view.valid, pad_lane(args["pad_value"], view.dtype))
        view = padded
    bind_view(f, op, sub_box(f.e, view, [0] * view.rank, view.shape, view.valid, drop=axes))


def write_extract(f: FunctionWriter, op: d.ApplyOp) -> None:
    args = apply_args(op)
    row, column = args["index_row"], args["index_col"]
    shape = scalars(f, op, "shape")
    assert isinstance(row, SSAValue) and isinstance(column, SSAValue) and shape is not None
    bind_view(f, op, take(f, op, operand(f, op, "src"), [f.index(row), f.index(column)], shape))


# writes -----------------------------------------------------------------------------------------------------------------


def rewritten(f: FunctionWriter, op: d.ApplyOp, old: SSAValue) -> Array:
    """Memory with the content of `old` that may be changed: its own when nobody else needs it, else a copy."""
    source, result = f.array(old), op.results[0]
    assert isinstance(result, OpResult)
    aimed = f.targets.get(result)
    if aimed is not None and aimed.same_place(source):
        f.targets.pop(result)
        f.values[result] = aimed.with_valid(source.valid)
    elif aimed is None and source.owned and is_last_use(old, op):
        f.values[result] = source
    else:
        copy_into(f, result, source, op.span)
    return f.array(result)


def write_assemble(f: FunctionWriter, op: d.ApplyOp) -> None:
    e = f.e
    args = apply_args(op)
    target_value, source_value = args["target"], args["source"]
    assert isinstance(target_value, SSAValue) and isinstance(source_value, SSAValue)
    source, offsets = f.array(source_value), scalars(f, op, "offset")
    assert offsets is not None
    # Of a tile the whole box goes over; cells outside its valid region carry nothing anybody may read.
    sizes = source.shape if d.shaped_type(op.results[0]).level == "tile" else source.valid
    check_inside(f, op, "writes", offsets, sizes, f.array(target_value).shape)
    if source.tokens & f.array(target_value).tokens:
        copy = f.new_array(source.dtype, source.shape, source.valid, op.span)
        copy_box(e, copy, source, source.valid)
        source = copy
    valid = written_valid(f, op, f.array(target_value), offsets, source.valid)
    target = rewritten(f, op, target_value)
    window = sub_box(e, target, offsets, source.shape, source.valid)
    if args.get("atomic") is AtomicType.Add:
        each(e, window, [window, source], source.valid, lambda values, lanes: _added(f, window, source, values, lanes))
    else:
        convert_box(e, window, source, source.valid)
    f.values[op.results[0]] = target.with_valid(valid)


def _added(f: FunctionWriter, target: Array, source: Array, values: Sequence[Value], lanes: int) -> Value:
    converted = convert_lane(f.e, values[1], source.dtype, target.dtype, lanes)
    return round_to(f.e, target.dtype, binary(f.e, "fadd" if target.dtype.is_float else "add", values[0], converted))


def write_element(f: FunctionWriter, op: d.ApplyOp) -> None:
    e = f.e
    args = apply_args(op)
    old, value = args["dst"], args["value"]
    offsets = scalars(f, op, "offset")
    assert isinstance(old, SSAValue) and isinstance(value, SSAValue) and offsets is not None
    ones: list[Index] = [1] * len(offsets)
    check_inside(f, op, "writes", offsets, ones, f.array(old).shape)
    valid = written_valid(f, op, f.array(old), offsets, ones)
    target = rewritten(f, op, old)
    cell = sub_box(e, target, offsets, ones)
    store_lanes(e, target.dtype, cell.pointer, convert_lane(e, f.scalar(value), dtype_of(value), target.dtype, 1), 1)
    f.values[op.results[0]] = target.with_valid(valid)


def written_valid(f: FunctionWriter, op: d.ApplyOp, target: Array, offsets: Sequence[Index], sizes: Sequence[Index]) -> list[Index]:
    """The valid region after a write: the union with the written box, which must be a box at the origin."""
    known = d.shaped_type(op.results[0]).valid
    if all(isinstance(dim, int) for dim in known):
        return [dim for dim in known if isinstance(dim, int)]
    if target.valid == target.shape:
        return list(target.valid)
    return _union(f, op, target.valid, offsets, sizes)


def _union(f: FunctionWriter, op: d.ApplyOp, valid: Sequence[Index], offsets: Sequence[Index], sizes: Sequence[Index]) -> list[Index]:
    """Run-time form of the rule: inside, covering, or an append that abuts in one dim."""
    e = f.e

    def both(a: Value, b: Value) -> Value:
        return binary(e, "and", a, b)

    def either(a: Value, b: Value) -> Value:
        return binary(e, "or", a, b)

    true, false = Value("true", "i1"), Value("false", "i1")
    nothing, empty, inside, at_origin, covers = false, false, true, true, true
    for v, o, s in zip(valid, offsets, sizes, strict=True):
        nothing = either(nothing, e.icmp("eq", s, 0))
        empty = either(empty, e.icmp("eq", v, 0))
        inside = both(inside, e.icmp("sle", e.add(o, s), v))
        at_origin = both(at_origin, e.icmp("eq", o, 0))
        covers = both(covers, e.icmp("sge", s, v))
    covers = both(at_origin, either(covers, empty))
    keeps = either(nothing, inside)
    appended, grows = false, list[Value]()
    for axis, (v, o, s) in enumerate(zip(valid, offsets, sizes, strict=True)):
        fits = both(e.icmp("sle", o, v), e.icmp("sgt", e.add(o, s), v))
        for other, (w, p, t) in enumerate(zip(valid, offsets, sizes, strict=True)):
            if other != axis:
                fits = both(fits, both(e.icmp("eq", p, 0), e.icmp("eq", t, w)))
        grows.append(fits)
        appended = either(appended, fits)
    good = either(keeps, either(covers, appended))
    failure = Failure("shape", f"{op.op} leaves a valid region that is no box", op.span, "write inside the valid region, or next to it along one dim")
    f.fail_if(binary(e, "xor", good, true), failure, [])
    out: list[Index] = []
    for v, o, s, grown in zip(valid, offsets, sizes, grows, strict=True):
        end = e.i64(e.add(o, s))
        joined = e.inst("i64", f"select {grown}, {end}, {e.i64(v)}")
        covered = e.inst("i64", f"select {covers}, {e.i64(s)}, {joined}")
        out.append(e.inst("i64", f"select {keeps}, {e.i64(v)}, {covered}"))
    return out
