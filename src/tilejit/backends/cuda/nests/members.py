"""What nests run: which ops are members of one, what they fold, and the space that they share."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from tilejit import ops
from tilejit.ops.reduce import reduced_axis
from tilejit.passes.fuse import FAMILIES
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args
from tilejit.types.values import ShapedType

Member = d.ApplyOp | d.StoreOp


def is_member(op: Operation) -> bool:
    """Whether a nest can run an op: cell by cell, or folding rows."""
    if isinstance(op, d.StoreOp):
        return True
    if not isinstance(op, d.ApplyOp) or len(op.results) != 1:
        return False
    family = ops.table()[op.op].family
    return (family in FAMILIES or family == "part") and family != "mask" and isinstance(d.type_of(op.results[0]), ShapedType)


def folds(op: Operation) -> str | None:
    """ "row" or "col" for a reduction."""
    if not isinstance(op, d.ApplyOp) or ops.table()[op.op].family != "reduction":
        return None
    source = d.shaped_type(op.args[0])
    axis = reduced_axis(str(ops.table()[op.op].attrs["axis"]), source.level, source.rank)
    return "row" if axis == source.rank - 1 else "col" if axis == source.rank - 2 else "other"


def members_of(op: Operation) -> list[Member]:
    if isinstance(op, d.GroupOp):
        return [inner for inner in op.body.block.ops if isinstance(inner, d.ApplyOp | d.StoreOp)]
    assert isinstance(op, d.ApplyOp | d.StoreOp)
    return [op]


def space_of(members: Sequence[Member]) -> SSAValue:
    """The member or operand with the most cells: its shape is the space of the nest."""
    candidates: list[SSAValue] = []
    for op in members:
        values = [op.value] if isinstance(op, d.StoreOp) else [*op.results, *(arg for arg in op.args if folds(op))]
        candidates += [value for value in values if isinstance(d.type_of(value), ShapedType)]
    return max(
        candidates,
        key=lambda value: (d.shaped_type(value).rank, sum(extent != 1 for extent in d.shaped_type(value).shape), d.shaped_type(value).shape[-1] != 1),
    )


def is_wide(op: Member, narrow: set[SSAValue]) -> bool:
    value = op.value if isinstance(op, d.StoreOp) else op.results[0]
    return value not in narrow and d.shaped_type(value).shape[-1] != 1


def only_shape(op: d.ApplyOp, operand: SSAValue) -> bool:
    """Whether only the shape of an operand matters."""
    row, args = ops.table()[op.op], apply_args(op)
    if row.family != "expand" or row.attrs["combine"] != "copy":
        return False
    if row.attrs["axis"] == "both":
        return operand is args["target"] and operand is not args.get("src")
    return operand is args["lhs"] and operand is not args["rhs"]
