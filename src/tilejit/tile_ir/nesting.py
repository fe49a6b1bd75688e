"""Which values can be written inside the expression that uses them, without changing the order of effects."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from tilejit import ops
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.equal import is_expression

_NEVER = (d.ForOp, d.WhileOp, d.IfOp, d.RegionOp, d.CallOp, d.LaunchOp, d.CreateOp, d.WindowOp, d.ViewOp, d.StridedOp, d.PeerOp)
_LONGEST = 3
"""Deepest nesting that still reads well."""


def nested_values(function: d.FuncOp) -> set[SSAValue]:
    """Values used once, right after they are made (or made from values alone), whose text may stand in their user's."""
    found: set[SSAValue] = set()
    for block in function.walk_blocks():
        _block(block, found)
    return found


def _block(block: Block, found: set[SSAValue]) -> None:
    ordered = [op for op in block.ops if not is_expression(op) and not isinstance(op, d.CheckOp)]
    position = {op: number for number, op in enumerate(ordered)}
    depth: dict[Operation, int] = {}
    for op in reversed(list(block.ops)):
        if op in position:
            _operands(op, position[op] - 1, ordered, found, depth, 0)


def _operands(op: Operation, last: int, ordered: list[Operation], found: set[SSAValue], depth: dict[Operation, int], level: int) -> int:
    """Mark operands of `op` that may be nested, from the last one back; `last`: the effect that must come right before."""
    if op.regions or level >= _LONGEST or isinstance(op, d.YieldOp | d.ConditionOp) or _in_a_block_of_its_own(op):
        return last
    for operand in reversed(_as_written(op)):
        maker = operand.owner
        if not isinstance(maker, Operation) or maker.parent is not op.parent or not _may_nest(maker, operand):
            continue
        if is_expression(maker):
            found.add(operand)
            last = _operands(maker, last, ordered, found, depth, level + 1)
        elif last >= 0 and ordered[last] is maker:
            found.add(operand)
            last = _operands(maker, last - 1, ordered, found, depth, level + 1)
        else:
            return -1
    return last


def _in_a_block_of_its_own(op: Operation) -> bool:
    """A launch of several blocks is written inside `with pl.spmd(n):`; what is nested into it would run there."""
    return isinstance(op, d.LaunchOp) and op.blocks is not None


def _as_written(op: Operation) -> list[SSAValue]:
    """Operands in the order in which they appear in the text."""
    if isinstance(op, d.StoreOp):
        return [op.value, *op.offsets, op.buffer]
    if isinstance(op, d.AtomicOp):
        return [op.buffer, *op.indices, *([] if op.expected is None else [op.expected]), op.value]
    if isinstance(op, d.WriteOp):
        return [op.buffer, *op.indices, op.value]
    return list(op.operands)


def _may_nest(maker: Operation, value: SSAValue) -> bool:
    if isinstance(maker, _NEVER) or len(maker.results) != 1 or "comment" in maker.attributes:
        return False
    if isinstance(maker, d.ApplyOp) and ops.facts(maker.op).rebinds:
        return False
    uses = list(value.uses)
    return len(uses) == 1
