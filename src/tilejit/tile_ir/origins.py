"""Where the extents of results come from: dims and scalars among the operands."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilejit import ops
from tilejit.ops.spec import Call
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args, scalar_arg
from tilejit.tile_ir.verify import level_of
from tilejit.types.values import BufferType, Dim, ScalarType, ShapedType, TileType

_MARK = "\N{SECTION SIGN}"


def extent_source(op: d.ApplyOp, result: int, axis: int) -> tuple[SSAValue, int] | SSAValue | None:
    """Where an extent of a result comes from: a dim of an operand, or a scalar operand.

    Found by inferring the types again with a mark in place of every extent of the operands.
    """
    args = apply_args(op)
    marks: dict[str, tuple[SSAValue, int]] = {}
    seen = {name: _marked(arg, marks) for name, arg in args.items()}
    row = ops.table()[op.op]
    type = row.infer(Call(row, level_of(op), seen))[result]
    assert isinstance(type, ShapedType)
    found = marks.get(str(type.shape[axis]))
    if found is not None:
        return found
    for items in args.values():
        if isinstance(items, list) and len(items) == type.rank:
            return items[axis]
    return None


def _marked(arg: object, marks: dict[str, tuple[SSAValue, int]]) -> object:
    if isinstance(arg, list):
        return tuple(scalar_arg(item) for item in arg)
    if not isinstance(arg, SSAValue):
        return arg
    type = d.type_of(arg)
    if isinstance(type, ScalarType):
        return scalar_arg(arg)
    if not isinstance(type, ShapedType):
        return type
    shape = tuple(_mark(arg, axis, dim, marks) for axis, dim in enumerate(type.shape))
    return BufferType(shape, type.dtype, type.layout) if isinstance(type, BufferType) else TileType(shape, type.dtype, shape, type.space)


def _mark(value: SSAValue, axis: int, dim: Dim, marks: dict[str, tuple[SSAValue, int]]) -> Dim:
    if isinstance(dim, int):
        return dim
    name = f"{_MARK}{len(marks)}"
    marks[name] = (value, axis)
    return name
