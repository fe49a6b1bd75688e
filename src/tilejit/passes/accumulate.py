"""A product that a loop adds to what it carries is added where that lies, instead of being held apart first."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from tilejit import ops
from tilejit.passes.rewriting import Before, remove, replace
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args
from tilejit.tile_ir.program import Program
from tilejit.types.values import TileType


def accumulate(program: Program) -> None:
    """`carried + lhs @ rhs` and `f(carried) + lhs @ rhs`, which are carried on, become matmul_acc."""
    for function in program.functions.values():
        for op in list(function.walk()):
            if isinstance(op, d.ApplyOp) and op.op == "add" and _is_carried(op):
                _rewrite(op)


def _is_carried(op: d.ApplyOp) -> bool:
    """Whether the next turn of a loop takes the result, and nobody else."""
    users = [use.operation for use in op.results[0].uses]
    return len(users) == 1 and isinstance(users[0], d.YieldOp) and isinstance(op.parent_op(), d.ForOp | d.WhileOp)


def _rewrite(op: d.ApplyOp) -> None:
    left, right = op.args
    for start, product in ((left, right), (right, left)):
        made = product.owner
        if isinstance(made, d.ApplyOp) and made.op == "matmul" and made.parent is op.parent and _is_for(product, op) and _may_hold(start, op):
            factors = {name: value for name, value in apply_args(made).items() if name in ("lhs", "rhs", "a_trans", "b_trans")}
            # Tiles are values: their product is the same wherever it stands.
            tiles = all(isinstance(d.type_of(value), TileType) for value in (start, *made.operands))
            if tiles and _is_known(start) and _cells(start) == _cells(product) == _cells(op.results[0]):
                replace(op, Before(op).apply_typed(ops.table()["matmul_acc"], {"acc": start} | factors, [d.type_of(op.results[0])]))
                remove(made)
                return


def _cells(value: SSAValue) -> tuple[object, ...]:
    type = d.shaped_type(value)
    return type.dtype, type.shape, type.valid


def _is_known(value: SSAValue) -> bool:
    type = d.shaped_type(value)
    return all(isinstance(extent, int) for extent in (*type.shape, *type.valid))


def _is_for(value: SSAValue, op: Operation) -> bool:
    return [use.operation for use in value.uses] == [op]


def _may_hold(value: SSAValue, op: Operation) -> bool:
    """Whether the sum may lie where `value` does: it is made for it in this turn, or is what the loop carries."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    return _is_for(value, op) and block is op.parent
