"""Finds the run-time extents of an array value from what is known outside the ops that compute it."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import OpResult, SSAValue

from tilejit import ops
from tilejit.dtypes import INDEX
from tilejit.errors import UnsupportedFeatureError
from tilejit.ops.gather import PATTERNS
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import same_scalar, sources_of
from tilejit.tile_ir.arguments import value_of
from tilejit.tile_ir.build import Builder, apply_args
from tilejit.tile_ir.entry_extents import entry_extent
from tilejit.tile_ir.origins import extent_source
from tilejit.types.values import ANY, EXTENT_OPERATIONS, BufferType, Dim, ScalarType


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
    made = _made_with(value, axis)
    if made is not None and (found := _at_hand(made, builder, outside)) is not None:
        return found
    if isinstance(owner, d.ApplyOp) and isinstance(value, OpResult):
        source = extent_source(owner, value.index, axis)
        if isinstance(source, tuple):
            return extent_of(*source, builder, outside)
        found = _at_hand(source, builder, outside) if source is not None else _computed(owner, axis, builder, outside)
        if found is not None:
            return found
    if isinstance(owner, d.IfOp | d.ForOp) and isinstance(value, OpResult) and entry_extent(value, axis) is not None:  # so it is the same on all ways
        ways = owner.inits if isinstance(owner, d.ForOp) else d.end_of(owner.then.block, d.YieldOp).values
        return extent_of(ways[value.index], axis, builder, outside)
    raise UnsupportedFeatureError(
        f"the extent of dim {axis} of {d.type_of(value)} is not known outside its region",
        span=owner.span if isinstance(owner, d.TileOp) else None,
        help="store the value into a tensor made by pl.create_tensor instead",
    )


def _made_with(value: SSAValue, axis: int) -> SSAValue | None:
    """The scalar that a buffer was made with as an extent; of one that a branch or loop hands out, the one that all ways give it."""
    owner = value.owner
    if isinstance(owner, d.CreateOp | d.ViewOp):
        return owner.extents[sum(not isinstance(dim, int) for dim in d.shaped_type(value).shape[:axis])]
    if isinstance(owner, d.WindowOp):
        return [extent for place, extent in enumerate(owner.extents) if place not in owner.drop][axis]
    if not isinstance(owner, d.IfOp | d.ForOp):
        return None
    sources = sources_of(value) or []
    found = [made for source in sources if source is not value and (made := _made_with(source, axis)) is not None]
    return found[0] if found and len(found) == len(sources) and all(_equal(found[0], other) for other in found[1:]) else None


def _equal(one: SSAValue, other: SSAValue) -> bool:
    """Whether two scalars are the same number because they are computed alike."""
    if same_scalar(one, other):
        return True
    first, second = one.owner, other.owner
    if isinstance(first, d.DimOp) and isinstance(second, d.DimOp):
        dims = [d.shaped_type(dim.source).shape[dim.axis] for dim in (first, second)]
        return (first.source is second.source and first.axis == second.axis) or (dims[0] == dims[1] != ANY)
    if not isinstance(first, d.ApplyOp) or not isinstance(second, d.ApplyOp) or first.op != second.op or first.op not in EXTENT_OPERATIONS:
        return False
    return all(_equal(left, right) for left, right in zip(first.args, second.args, strict=True))


def _at_hand(scalar: SSAValue, builder: Builder, outside: Callable[[SSAValue], bool]) -> SSAValue | None:
    """A scalar operand as it can be had outside: itself, a constant, an extent, or computed again from such."""
    owner = scalar.owner
    if outside(scalar):
        return scalar
    if isinstance(owner, d.ConstOp):
        return builder.const(int(owner.value))
    if isinstance(owner, d.ApplyOp) and owner.op in EXTENT_OPERATIONS and isinstance(d.type_of(scalar), ScalarType):
        operands = [_at_hand(operand, builder, outside) for operand in owner.args]
        again = [operand for operand in operands if operand is not None]
        return builder.insert(owner.clone(dict(zip(owner.args, again, strict=True)))).results[0] if len(again) == len(operands) else None
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
