"""Which blocks of a kernel have most to do: those start first, so that none of them is left over when the others are done."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilejit import ops
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of


def grows(function: d.FuncOp) -> bool:
    """Whether later blocks run longer loops than earlier ones, at least for a stretch, and none does the contrary."""
    found = {_trend(op.upper) - _trend(op.lower) for op in function.body.block.ops if isinstance(op, d.ForOp)} - {0}
    return found != set() and min(found) > 0


def _trend(value: SSAValue) -> int:
    """1 where a number grows with the index of the block, -1 where it falls, 0 where it does neither or nobody knows."""
    owner = value.owner
    if not isinstance(owner, d.ApplyOp):
        return 0
    if owner.op == "get_block_idx":
        return 1
    operator = ops.table()[owner.op].facts.operator
    if operator not in ("Add", "Sub", "Mult", "FloorDiv", "Mod"):
        return 0
    left, right = (_trend(arg) for arg in owner.args)
    if operator in ("Mult", "FloorDiv", "Mod"):
        factor = constant_of(owner.args[1])
        return left if isinstance(factor, int) and factor > 0 else 0
    if operator == "Sub" and left and right == left:  # x - x // n * n, as a remainder
        return left
    second = right if operator == "Add" else -right
    return left or second if left * second >= 0 else 0
