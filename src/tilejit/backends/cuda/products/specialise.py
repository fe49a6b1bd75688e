"""Loops as in attention whose warps have different work: one group copies tiles, two others compute half of the rows each, and neither waits for the other.

While one computes exponentials, the tensor cores work for the other. Triton does it to a loop that asks for it, on Hopper, with a producer and two
consumers for 128 rows. What it takes is narrow, so that a loop is asked for only where all of this holds: two products, the second of what becomes
of the first; a left factor that was copied before the loop; right factors that the loop copies; no branches, which are selections here.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilejit import ops
from tilejit.dtypes import BF16, FP16, FP32
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args
from tilejit.types.values import ShapedType, TileType

ROWS = 128
"""Of the products: 64 for each of two groups."""
_SIZES = (64, 128)
"""Columns of their factors."""
_PLAIN = (d.ApplyOp, d.ConstOp, d.GroupOp, d.YieldOp)
_CELLS = ("elementwise", "expand")
"""Families of ops that may run though nobody asked for their result; those that make a tile of numbers may too."""


def suits(loop: Operation | None) -> bool:
    """Whether the warps of a loop can be shared out."""
    if not isinstance(loop, d.ForOp) or not isinstance(loop.parent_op(), d.FuncOp):
        return False
    block = loop.body.block
    products = [op for op in block.ops if isinstance(op, d.ApplyOp) and ops.table()[op.op].family == "matmul"]
    if len(products) != 2 or not all(isinstance(op, (*_PLAIN, d.LoadOp, d.IfOp)) for op in block.walk()):
        return False
    (left, right), (_, last) = (_factors(op) for op in products)
    if left is None or right is None or last is None or left.parent_op() is not loop.parent_op() or {right.parent_op(), last.parent_op()} != {loop}:
        return False
    tiles = [d.shaped_type(op.result) for op in (left, right, last)]
    sizes = {extent for tile in tiles for extent in tile.shape} - {ROWS}
    same = {tile.dtype for tile in tiles} in ({BF16}, {FP16})
    branches = [op for op in block.walk() if isinstance(op, d.IfOp)]
    return same and tiles[0].shape[0] == ROWS and sizes <= set(_SIZES) and all(op.parent is block and _selects(op) for op in branches)


def _factors(op: d.ApplyOp) -> tuple[d.LoadOp | None, d.LoadOp | None]:
    """The loads of both factors of a product, perhaps turned."""
    args = apply_args(op)
    if op.op != "matmul":
        return None, None
    return _loaded(args["lhs"]), _loaded(args["rhs"])


def _loaded(value: object) -> d.LoadOp | None:
    assert isinstance(value, SSAValue)
    owner = value.owner
    while isinstance(owner, d.ApplyOp) and ops.table()[owner.op].facts.swaps:
        owner = owner.args[0].owner
    return owner if isinstance(owner, d.LoadOp) else None


def _selects(op: d.IfOp) -> bool:
    """Whether both branches can be taken, and one result chosen."""
    types = [d.type_of(result) for result in op.results]
    known = all(isinstance(type, TileType) and type.dtype is FP32 and all(isinstance(extent, int) for extent in type.valid) for type in types)
    inner = [each for region in op.regions for each in region.walk()]
    applied = [each for each in inner if isinstance(each, d.ApplyOp)]
    cells = all(ops.table()[each.op].family in _CELLS or not any(isinstance(d.type_of(arg), ShapedType) for arg in each.args) for each in applied)
    return bool(types) and known and cells and all(isinstance(each, _PLAIN) for each in inner)


def left_of(op: d.LoadOp) -> bool:
    """Whether a tile is the left factor of such a loop and nothing else."""
    users = [use.operation for use in op.result.uses]
    if len(users) != 1 or not isinstance(users[0], d.ApplyOp):
        return False
    loop = users[0].parent_op()
    return suits(loop) and isinstance(d.type_of(op.result), ShapedType) and _factors(users[0])[0] is op
