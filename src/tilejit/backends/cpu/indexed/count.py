"""Counting numbers into bins."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.indexed.cells import address, cells
from tilejit.backends.cpu.lanes import ops as lanes
from tilejit.backends.cpu.lanes.casts import convert_lane
from tilejit.backends.cpu.lanes.registers import lane_constant, load_lanes, store_lanes
from tilejit.backends.cpu.memory.movement import operand, result_of
from tilejit.backends.cpu.nests.nest import fill_box
from tilejit.dtypes import INDEX
from tilejit.ops.order import COUNT_HELP
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args


def write_bincount(f: FunctionWriter, op: d.ApplyOp) -> None:
    e, source = f.e, operand(f, op, "input")
    args = apply_args(op)
    length, given = int(str(args["length"])), args.get("weights")
    weights = f.array(given) if isinstance(given, SSAValue) else None
    target = result_of(f, op, [length], [length])
    fill_box(e, target, lane_constant(target.dtype, 0, 1), [length])
    failure = Failure("bounds", f"bincount: {{0}} is outside 0 to {length - 1}", op.span, COUNT_HELP)
    with cells(e, source.valid) as at:
        number = convert_lane(e, load_lanes(e, source.dtype, address(e, source, at), 1), source.dtype, INDEX, 1)
        f.fail_if(e.icmp("uge", number, length), failure, [number])
        place = address(e, target, [number])
        more = lane_constant(target.dtype, 1, 1) if weights is None else load_lanes(e, weights.dtype, address(e, weights, at), 1)
        store_lanes(e, target.dtype, place, lanes.apply_lane(e, lanes.ADD, target.dtype, [load_lanes(e, target.dtype, place, 1), more], 1), 1)
