"""On-core arrays: scalars kept in the workspace; an update writes in place when nobody needs the array as it was."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilejit.backends.pto.write.blocks import BlockWriter
from tilejit.backends.pto.write.memory import Memory, Part, Region
from tilejit.backends.pto.write.scalars import converted, extent_of, scalar_as
from tilejit.backends.pto.write.text import element_name, hint_of, scalar_name, stored
from tilejit.dtypes import TASK_ID, DType
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import operand
from tilejit.types.values import ArrayType


def array_type(value: SSAValue) -> ArrayType:
    type = d.type_of(value)
    assert isinstance(type, ArrayType)
    return type


def array_memory(w: BlockWriter, value: SSAValue, op: d.TileOp) -> Memory:
    """Memory for an array."""
    type = array_type(value)
    if type.dtype is TASK_ID:
        raise w.refuse(op, "an array of task ids")
    element_name(type.dtype)
    return w.workspace(type.dtype, (type.extent,), op, hint_of(value) or "array")


def copy_array(w: BlockWriter, source: Memory, target: Memory, op: d.TileOp) -> None:
    extent = source.shape[-1]
    assert isinstance(extent, int)
    everything = Region(Part(0, 1, 1), Part(0, extent, extent))
    w.store(w.load(source, everything, op), target, everything, op)


def create(w: BlockWriter, op: d.ApplyOp) -> None:
    value = op.results[0]
    type, memory = array_type(value), array_memory(w, value, op)
    dtype: DType = stored(type.dtype)
    tile = w.tile(1, type.extent, (1, type.extent), dtype)
    w.dest("texpands", [(w.constant(0, dtype), scalar_name(dtype))], tile)
    w.store(tile, memory, Region(Part(0, 1, 1), Part(0, type.extent, type.extent)), op)
    w.memories[value] = memory


def get(w: BlockWriter, op: d.ApplyOp) -> None:
    array = operand(op, "array")
    memory = w.memories[array]
    found = w.load_scalar(memory, (extent_of(w, operand(op, "index"), op),), hint_of(op.results[0]))
    w.scalars[op.results[0]] = converted(w, found, memory.dtype, array_type(array).dtype)


def update(w: BlockWriter, op: d.ApplyOp) -> None:
    array, result = operand(op, "array"), op.results[0]
    memory = w.memories[array]
    if w.plan.is_used_after(array, op):
        memory = array_memory(w, result, op)
        copy_array(w, w.memories[array], memory, op)
    value = scalar_as(w, operand(op, "value"), array_type(array).dtype, op)
    w.store_scalar(memory, (extent_of(w, operand(op, "index"), op),), converted(w, value, array_type(array).dtype, memory.dtype))
    w.touch(memory)
    w.memories[result] = memory
