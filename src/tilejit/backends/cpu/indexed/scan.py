"""Running sums, products and extremes: along the last axis some lanes at a time, along others a row of lanes at a time."""

from __future__ import annotations

from tilejit import ops
from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.indexed.cells import address, cells
from tilejit.backends.cpu.lanes import ops as lanes
from tilejit.backends.cpu.lanes.registers import lane_constant, load_lanes, round_to, store_lanes
from tilejit.backends.cpu.llvm.text import Emitter, Value
from tilejit.backends.cpu.llvm.vector import extract, shuffle, splat
from tilejit.backends.cpu.memory.movement import operand, result_of
from tilejit.backends.cpu.memory.storage import Array, sub_box
from tilejit.backends.cpu.nests.nest import copy_box, each
from tilejit.dtypes import DType
from tilejit.ops.scan import scanned_axis
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args

_LANES = {"sum": lanes.ADD, "prod": lanes.MUL, "max": lanes.MAXIMUM, "min": lanes.MINIMUM}


def write_scan(f: FunctionWriter, op: d.ApplyOp) -> None:
    source = operand(f, op, "input")
    lane = _LANES[str(ops.table()[op.op].attrs["combine"])]
    axis = scanned_axis(apply_args(op)["axis"], source.rank)
    target = result_of(f, op, source.shape, source.valid)
    narrow = source.dtype.is_float and source.dtype.bits < 32
    free = not narrow and source.dtype.bits >= 32 and (f.unit.options.fast_math or not source.dtype.is_float)
    if axis == source.rank - 1 and free and source.strides[-1] == 1 and target.strides[-1] == 1:
        _by_lanes(f.e, lane, target, source)
    elif axis == source.rank - 1 or narrow:
        _by_element(f.e, lane, target, source, axis)
    else:
        _by_row(f.e, lane, target, source, axis)


def _combined(e: Emitter, lane: lanes.Lane, dtype: DType, so_far: Value, value: Value, width: int) -> Value:
    """Not rounded: what is carried on has the precision of a register."""
    return lane.rule(dtype)(lanes.Lanes(e, dtype, width), so_far, value)


def _by_element(e: Emitter, lane: lanes.Lane, target: Array, source: Array, axis: int) -> None:
    others = [1 if place == axis else extent for place, extent in enumerate(source.valid)]
    with cells(e, others) as at, e.when(e.icmp("sgt", source.valid[axis], 0)):
        first = load_lanes(e, source.dtype, address(e, source, at), 1)
        store_lanes(e, target.dtype, address(e, target, at), first, 1)
        with e.loop(1, source.valid[axis], carried=[first], name="scan") as loop:
            here = [loop.iv if place == axis else index for place, index in enumerate(at)]
            total = _combined(e, lane, source.dtype, loop.carried[0], load_lanes(e, source.dtype, address(e, source, here), 1), 1)
            store_lanes(e, target.dtype, address(e, target, here), round_to(e, target.dtype, total), 1)
            loop.next = [total]


def _by_lanes(e: Emitter, lane: lanes.Lane, target: Array, source: Array) -> None:
    """Each group of lanes is scanned by itself, by doubling; only the last lane is handed on, so that groups wait for one step each."""
    dtype, count = source.dtype, source.valid[-1]
    width = 256 // dtype.bits
    neutral = lane_constant(dtype, 1 if lane is lanes.MUL else 0, width)
    with cells(e, source.valid[:-1]) as at, e.when(e.icmp("sgt", count, 0)):
        start = load_lanes(e, dtype, address(e, source, [*at, 0]), 1)
        store_lanes(e, dtype, address(e, target, [*at, 0]), start, 1)
        whole = e.sub(count, width - 1)
        with e.loop(1, whole, width, carried=[start, Value("1", "i64")], name="scan") as loop:
            group = load_lanes(e, dtype, address(e, source, [*at, loop.iv]), width)
            step = 1
            while step < width:
                # Lanes that nothing reaches take what changes nothing; the extreme of an element and itself is that element.
                missing = neutral if lane in (lanes.ADD, lanes.MUL) else group
                before = shuffle(e, missing, group, [index if index < step else width + index - step for index in range(width)])
                group = _combined(e, lane, dtype, before, group, width)
                step *= 2
            store_lanes(e, dtype, address(e, target, [*at, loop.iv]), _combined(e, lane, dtype, splat(e, loop.carried[0], width), group, width), width)
            loop.next = [_combined(e, lane, dtype, loop.carried[0], extract(e, group, width - 1), 1), e.i64(e.add(loop.iv, width))]
        with e.loop(loop.results[1], count, carried=[loop.results[0]], name="rest") as rest:
            total = _combined(e, lane, dtype, rest.carried[0], load_lanes(e, dtype, address(e, source, [*at, rest.iv]), 1), 1)
            store_lanes(e, dtype, address(e, target, [*at, rest.iv]), total, 1)
            rest.next = [total]


def _by_row(e: Emitter, lane: lanes.Lane, target: Array, source: Array, axis: int) -> None:
    inner = source.valid[axis + 1 :]
    with cells(e, source.valid[:axis]) as at:

        def row(array: Array, index: Value | int) -> Array:
            whole = [*at, index, *[0] * len(inner)]
            return sub_box(e, array, whole, [*[1] * (axis + 1), *inner], drop=range(axis + 1))

        with e.when(e.icmp("sgt", source.valid[axis], 0)):
            copy_box(e, row(target, 0), row(source, 0), inner)
        with e.loop(1, source.valid[axis], name="scan") as loop:
            before = row(target, e.sub(loop.iv, 1))

            def compute(values: list[Value], width: int) -> Value:
                return _combined(e, lane, source.dtype, values[0], values[1], width)

            each(e, row(target, loop.iv), [before, row(source, loop.iv)], inner, compute)
