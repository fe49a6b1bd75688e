"""Finds the run-time extents of an array value from what is known outside the ops that compute it."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from tilejit import ops
from tilejit.dtypes import INDEX
from tilejit.errors import UnsupportedFeatureError
from tilejit.ops.gather import PATTERNS
from tilejit.ops.spec import Call
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import Builder, apply_args, scalar_arg
from tilejit.tile_ir.verify import level_of
from tilejit.types.values import ANY, BufferType, Dim, ScalarType, ShapedType, TileType

_MARK = "\N{SECTION SIGN}"


def extents_of(value: SSAValue, builder: Builder, outside: Callable[[SSAValue], bool]) -> list[SSAValue]:
    """Scalars for the extents of `value` that are no constants, in order; `outside` tells which values are at hand."""
    shape = d.shaped_type(value).shape
    return [extent_of(value, axis, builder, outside) for axis, dim in enumerate(shape) if not isinstance(dim, int)]


def extent_of(value: SSAValue, axis: int, builder: Builder, outside: Callable[[SSAValue], bool]) -> SSAValue:
    """A scalar for one extent of `value`, computed from what is at hand."""
    if outside(value):
        return builder.dim(value, axis)
    dim = d.shaped_type(value).shape[axis]
    if isinstance(dim, int):
        return builder.const(dim)
    parameter = parameter_with(value, dim)
    if parameter is not None:
        return builder.dim(*parameter)
    owner = value.owner
    if isinstance(owner, d.ApplyOp):
        source = _source(owner, list(owner.results).index(value), axis)  # type: ignore[arg-type]
        if isinstance(source, tuple):
            return extent_of(*source, builder, outside)
        found = _at_hand(source, builder, outside) if source is not None else _computed(owner, axis, builder, outside)
        if found is not None:
            return found
    raise UnsupportedFeatureError(
        f"the extent of dim {axis} of {d.type_of(value)} is not known outside its region",
        span=owner.span if isinstance(owner, d.TileOp) else None,
        help="store the value into a tensor made by pl.create_tensor instead",
    )


def _at_hand(scalar: SSAValue, builder: Builder, outside: Callable[[SSAValue], bool]) -> SSAValue | None:
    """A scalar operand as it can be had outside: itself, a constant, or an extent."""
    owner = scalar.owner
    if outside(scalar):
        return scalar
    if isinstance(owner, d.ConstOp):
        return builder.const(int(owner.value))
    return extent_of(owner.source, owner.axis, builder, outside) if isinstance(owner, d.DimOp) else None


def _computed(op: d.ApplyOp, axis: int, builder: Builder, outside: Callable[[SSAValue], bool]) -> SSAValue | None:
    """An extent that is no extent of an operand but follows from them."""
    args = apply_args(op)

    def scalar(name: str, left: SSAValue, right: SSAValue) -> SSAValue:
        return builder.apply_typed(ops.table()[name], {"lhs": left, "rhs": right}, [ScalarType(INDEX)])[0]

    def extent(name: str) -> SSAValue:
        return extent_of(value_of(args[name]), axis, builder, outside)

    if op.op == "concat":
        return scalar("add", extent("src0"), extent("src1"))
    if op.op == "gather" and args.get("mask_pattern") is not None:
        return scalar("floordiv", extent("input"), builder.const(PATTERNS[int(str(args["mask_pattern"]))][1]))
    if op.op == "slice":
        shape, dropped = args["shape"], args.get("drop_dims") or ()
        assert isinstance(shape, list) and isinstance(dropped, tuple | list)
        kept = [size for position, size in enumerate(shape) if position not in dropped]
        return _at_hand(kept[axis], builder, outside)
    return None


def parameter_with(value: SSAValue, dim: Dim) -> tuple[SSAValue, int] | None:
    """A parameter of the function that has the symbol `dim` as an extent."""
    if dim == ANY:
        return None
    function = d.enclosing(value.owner, d.FuncOp)
    if function is None:
        return None
    for argument in function.body.block.args:
        type = d.type_of(argument)
        if isinstance(type, BufferType) and dim in type.shape:
            return argument, type.shape.index(dim)
    return None


def _source(op: d.ApplyOp, result: int, axis: int) -> tuple[SSAValue, int] | SSAValue | None:
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
