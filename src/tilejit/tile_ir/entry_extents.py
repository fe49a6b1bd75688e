"""Extents of values as expressions that a call of their entry can evaluate before it starts (see `Signature.computed`)."""

from __future__ import annotations

from xdsl.ir import BlockArgument, OpResult, SSAValue

from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.origins import extent_source
from tilejit.types.values import ANY, EXTENT_OPERATIONS

_Seen = dict[tuple[SSAValue, int], object]
"""What is known of extents, and what is assumed of those that loops carry; a wrong assumption leaves nothing known of the whole."""


def entry_extent(value: SSAValue, axis: int) -> object:
    """An extent as such an expression, or None."""
    return _extent(value, axis, {})


def _extent(value: SSAValue, axis: int, seen: _Seen) -> object:
    if (value, axis) not in seen:
        seen[value, axis] = _found(value, axis, seen)
    return seen[value, axis]


def _found(value: SSAValue, axis: int, seen: _Seen) -> object:
    type, maker = d.shaped_type(value), value.owner
    dim = type.shape[axis]
    if isinstance(dim, int):
        return dim
    if dim != ANY:
        return ("dim", dim)  # whoever made the value: parameters carry the symbol
    if isinstance(value, BlockArgument):
        return _of_argument(value, axis, seen)
    if isinstance(maker, d.CreateOp | d.ViewOp):
        return _computed(maker.extents[sum(isinstance(extent, str) for extent in type.shape[:axis])], seen)
    if isinstance(maker, d.WindowOp):
        return _computed([extent for place, extent in enumerate(maker.extents) if place not in maker.drop][axis], seen)
    assert isinstance(value, OpResult)
    index = value.index
    if isinstance(maker, d.IfOp):
        ways = [_extent(d.end_of(side.block, d.YieldOp).values[index], axis, seen) for side in (maker.then, maker.orelse)]
        return ways[0] if ways[0] == ways[1] else None
    if isinstance(maker, d.RegionOp):
        return _extent(d.end_of(maker.body.block, d.YieldOp).values[index], axis, seen)
    if isinstance(maker, d.ForOp):
        return _extent(maker.body.block.args[index + 1], axis, seen)
    if isinstance(maker, d.WhileOp):
        return _extent(d.end_of(maker.before.block, d.ConditionOp).values[index], axis, seen)
    source = extent_source(maker, index, axis) if isinstance(maker, d.ApplyOp) else None
    return _extent(*source, seen) if isinstance(source, tuple) else _computed(source, seen)


def _of_argument(value: BlockArgument, axis: int, seen: _Seen) -> object:
    loop = value.owner.parent_op()
    if isinstance(loop, d.ForOp):
        return _carried(value, loop.inits[value.index - 1], d.end_of(loop.body.block, d.YieldOp).values[value.index - 1], axis, seen)
    if isinstance(loop, d.WhileOp) and value.owner is loop.before.block:
        return _carried(value, loop.inits[value.index], d.end_of(loop.body.block, d.YieldOp).values[value.index], axis, seen)
    return _extent(d.end_of(loop.before.block, d.ConditionOp).values[value.index], axis, seen) if isinstance(loop, d.WhileOp) else None


def _carried(value: BlockArgument, first: SSAValue, last: SSAValue, axis: int, seen: _Seen) -> object:
    """A loop carries one extent if it begins with it, and a turn that begins with it ends with it."""
    found = seen[value, axis] = _extent(first, axis, seen)
    return found if found == _extent(last, axis, seen) else None


_LARGEST = 64
"""Operations that an extent of a result may take: it is computed in every call."""


def _computed(value: SSAValue | None, seen: _Seen) -> object:
    """A scalar as such an expression."""
    if isinstance(value, BlockArgument):
        function = value.owner.parent_op()
        return ("scalar", function.names[value.index]) if isinstance(function, d.FuncOp) else None
    maker = value.owner if value is not None else None
    if isinstance(maker, d.ConstOp):
        return maker.static("value")
    if isinstance(maker, d.DimOp):
        return _extent(maker.source, maker.axis, seen)
    if isinstance(maker, d.ApplyOp) and maker.op in EXTENT_OPERATIONS and _operations(maker) <= _LARGEST:
        operands = [_computed(operand, seen) for operand in maker.args]
        return None if None in operands else (maker.op, *operands)
    return None


def _operations(op: d.ApplyOp) -> int:
    """How many operations a scalar takes when everything it is made of is written out; counting stops past the limit."""
    count, pending = 0, [op]
    while pending and count <= _LARGEST:
        count += 1
        pending += [operand.owner for operand in pending.pop().args if isinstance(operand.owner, d.ApplyOp)]
    return count
