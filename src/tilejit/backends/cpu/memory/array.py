"""On-core arrays: a few elements in memory, replaced in place when nobody needs the old array."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.lanes.casts import convert_lane
from tilejit.backends.cpu.lanes.registers import lane_constant, load_lanes, store_lanes
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.backends.cpu.memory.window import rewritten
from tilejit.backends.cpu.nests.nest import fill_box
from tilejit.dtypes import INT64, TASK_ID, DType
from tilejit.ops.array import index_help
from tilejit.runtime.call.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import apply_args
from tilejit.types.values import ArrayType


def _held(dtype: DType) -> DType:
    """Task ids are numbers like others."""
    return INT64 if dtype is TASK_ID else dtype


def write_create(f: FunctionWriter, op: d.ApplyOp) -> None:
    type = d.type_of(op.results[0])
    assert isinstance(type, ArrayType)
    array = f.new_array(_held(type.dtype), [type.extent], span=op.span)
    fill_box(f.e, array, lane_constant(array.dtype, -1 if type.dtype is TASK_ID else 0, 1), array.shape)
    f.values[op.results[0]] = array


def _position(f: FunctionWriter, op: d.ApplyOp) -> Index:
    array, index = apply_args(op)["array"], apply_args(op)["index"]
    assert isinstance(array, SSAValue) and isinstance(index, SSAValue)
    position, extent = f.index(index), f.array(array).shape[0]
    if not isinstance(position, int):
        failure = Failure("bounds", "index {0} of an array with {1} elements", op.span, index_help(extent) if isinstance(extent, int) else None)
        f.fail_if(f.e.icmp("uge", position, extent), failure, [position, extent])
    return position


def _cell(f: FunctionWriter, value: SSAValue, position: Index) -> Value:
    array = f.array(value)
    return f.e.offset(array.pointer, position, array.dtype.llvm)


def write_get(f: FunctionWriter, op: d.ApplyOp) -> None:
    position = _position(f, op)
    f.values[op.results[0]] = load_lanes(f.e, f.array(op.args[0]).dtype, _cell(f, op.args[0], position), 1)


def write_update(f: FunctionWriter, op: d.ApplyOp) -> None:
    value = value_of(apply_args(op)["value"])
    type = d.type_of(value)
    position = _position(f, op)
    array = rewritten(f, op, op.args[0])
    store_lanes(f.e, array.dtype, _cell(f, op.results[0], position), convert_lane(f.e, f.scalar(value), _held(type.dtype), array.dtype, 1), 1)
