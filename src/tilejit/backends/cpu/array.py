"""On-core arrays: a few integers in scratch memory, copied when an element changes and the old array is still needed."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from tilejit.backends.cpu.casts import convert_lane
from tilejit.backends.cpu.emit import Index
from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.indexed import INDEX_HELP, address
from tilejit.backends.cpu.movement import operand
from tilejit.backends.cpu.nest import copy_box, fill_box
from tilejit.backends.cpu.recipes import dtype_of
from tilejit.backends.cpu.registers import lane_constant, load_lanes, store_lanes
from tilejit.backends.cpu.storage import Array
from tilejit.backends.cpu.views import is_last_use
from tilejit.dtypes import TASK_ID
from tilejit.runtime.failures import Failure
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args
from tilejit.types.values import ArrayType

Rule = Callable[[FunctionWriter, d.ApplyOp], None]


def _create(f: FunctionWriter, op: d.ApplyOp) -> None:
    type = d.type_of(op.results[0])
    assert isinstance(type, ArrayType)
    array = f.new_array(type.dtype, [type.extent], [type.extent], op.span)
    fill_box(f.e, array, lane_constant(type.dtype, -1 if type.dtype is TASK_ID else 0, 1), array.shape)
    f.values[op.results[0]] = array


def _position(f: FunctionWriter, op: d.ApplyOp, array: Array) -> Index:
    index = apply_args(op)["index"]
    assert isinstance(index, SSAValue)
    place, (extent,) = f.index(index), array.shape
    if not isinstance(place, int):
        failure = Failure("bounds", f"index {{0}} of an array with {extent} elements", op.span, INDEX_HELP)
        f.fail_if(f.e.icmp("uge", place, extent), failure, [place])
    return place


def _get(f: FunctionWriter, op: d.ApplyOp) -> None:
    array = operand(f, op, "array")
    f.values[op.results[0]] = load_lanes(f.e, array.dtype, address(f.e, array, [_position(f, op, array)]), 1)


def _update(f: FunctionWriter, op: d.ApplyOp) -> None:
    args = apply_args(op)
    old, value = args["array"], args["value"]
    assert isinstance(old, SSAValue) and isinstance(value, SSAValue)
    array = f.array(old)
    place = _position(f, op, array)
    if not (array.owned and is_last_use(old, op)):
        copy = f.new_array(array.dtype, array.shape, array.valid, op.span)
        copy_box(f.e, copy, array, array.shape)
        array = copy
    element = f.scalar(value) if array.dtype is TASK_ID else convert_lane(f.e, f.scalar(value), dtype_of(value), array.dtype, 1)
    store_lanes(f.e, array.dtype, address(f.e, array, [place]), element, 1)
    f.values[op.results[0]] = array


RULES: dict[str, Rule] = {"array_create": _create, "array_get_element": _get, "array_update_element": _update}
