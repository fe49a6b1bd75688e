"""Small tools that several passes share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilejit import ops
from tilejit.ops.facts import Effect, Fails
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import written_by
from tilejit.tile_ir.build import Builder, constant_of, operands
from tilejit.tile_ir.equal import asks_place
from tilejit.types.values import BufferType, ScalarType, ShapedType


def is_pure(op: Operation) -> bool:
    """Whether an op has no effect but its results and cannot fail at run time: unused, it may go."""
    if isinstance(op, d.CreateOp):
        return all(is_extent(extent) for extent in op.extents)
    return isinstance(op, d.ConstOp | d.DimOp | d.ValidOp) or (isinstance(op, d.ApplyOp) and _removable(op))


def is_extent(value: SSAValue, depth: int = 8) -> bool:
    """Whether a scalar is surely not negative: a constant, the extent of something, or made from such by operators that keep it so."""
    known = constant_of(value)
    if known is not None or depth == 0 or not isinstance(value.owner, d.ApplyOp):
        return known >= 0 if known is not None else isinstance(value.owner, d.DimOp | d.ValidOp)
    sides = [is_extent(side, depth - 1) for side in value.owner.operands]
    match value.owner.op:
        case "maximum":
            return any(sides)
        case "add" | "mul" | "floordiv" | "mod" | "minimum":
            return all(sides)
        case _:
            return False


def _removable(op: d.ApplyOp) -> bool:
    facts = ops.facts(op.op)
    types = [d.type_of(operand) for operand in op.operands]
    match facts.fails:
        case Fails.Indices:
            return False
        case Fails.Extents:
            known = all(constant_of(extent) is not None for extent in operands(op, "valid_shape"))
            return known and all(is_extent(extent) for extent in operands(op, "shape"))
        case Fails.Scalars:
            return not any(isinstance(type, ScalarType) and constant_of(value) is None for type, value in zip(types, op.operands, strict=True))
        case Fails.Region:
            return _is_copy(op) or all(_is_known(type) for type in types if isinstance(type, ShapedType))
        case Fails.Divisor | Fails.Never:
            return facts.effect is not Effect.Cross


def _is_copy(op: d.ApplyOp) -> bool:
    """A snapshot of a buffer: it fits itself."""
    return op.op == "expand_clone" and op.operands[0] is op.operands[1]


def _is_known(type: ShapedType) -> bool:
    """Whether shape and valid region were there for the type rule to look at; an empty region passes no rule that asks."""
    return all(isinstance(extent, int) for extent in (*type.shape, *type.valid))


def is_scalar_op(op: Operation) -> bool:
    """Arithmetic on scalars, the same wherever it stands."""
    if not isinstance(op, d.ApplyOp) or not all(isinstance(d.type_of(value), ScalarType) for value in op.results):
        return False
    return all(isinstance(d.type_of(value), ScalarType) for value in op.operands) and not asks_place(op)


def is_operator(op: Operation) -> bool:
    """Work on arrays: what the execution plane does."""
    if isinstance(op, d.LoadOp | d.StoreOp | d.ElementWrite) or written_by(op) is not None:
        return True
    return isinstance(op, d.ApplyOp) and any(isinstance(d.type_of(value), ShapedType) for value in [*op.operands, *op.results])


def is_neutral(op: Operation) -> bool:
    """Whether an op may stand on either plane and move ahead of a run that it does not depend on."""
    handles = d.CreateOp | d.WindowOp | d.ViewOp | d.StridedOp | d.PeerOp
    return isinstance(op, d.ConstOp | d.DimOp | d.ValidOp | handles | d.CommOp | d.CheckOp) or is_scalar_op(op)


def has_uses(value: SSAValue) -> bool:
    return value.first_use is not None


def replace(op: Operation, values: Sequence[SSAValue]) -> None:
    """Use `values` instead of the results of `op`, and remove it."""
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    remove(op)


def remove(op: Operation) -> None:
    op.detach()
    op.erase()


def splice(op: Operation, block: Block, arguments: Sequence[SSAValue]) -> None:
    """Put the body `block` of `op` where `op` stands; its results become what the block yields."""
    for argument, value in zip(block.args, arguments, strict=True):
        argument.replace_all_uses_with(value)
    terminator = d.end_of(block, d.TileOp)
    parent = op.parent
    assert parent is not None
    yielded = list(terminator.operands)
    for inner in list(block.ops):
        inner.detach()
        if inner is not terminator:
            parent.insert_op_before(inner, op)
    terminator.erase()
    replace(op, yielded)


def free_values(body: Iterable[Operation]) -> list[SSAValue]:
    """Values that ops (with everything nested in them) use and do not define, in order of first use."""
    ops_inside = list(body)
    defined: set[SSAValue] = set()
    used: dict[SSAValue, None] = {}
    for top in ops_inside:
        for op in top.walk():
            defined.update(op.results)
            for region in op.regions:
                for block in region.blocks:
                    defined.update(block.args)
    for top in ops_inside:
        for op in top.walk():
            used.update(dict.fromkeys(operand for operand in op.operands if operand not in defined))
    return list(used)


def root(buffer: SSAValue) -> SSAValue:
    """The buffer that a chain of windows and views looks into."""
    while not isinstance(buffer, BlockArgument) and isinstance(buffer.owner, d.WindowOp | d.ViewOp | d.StridedOp | d.PeerOp):
        buffer = buffer.owner.buffer
    return buffer


def is_buffer(value: SSAValue) -> bool:
    return isinstance(d.type_of(value), BufferType)


class Before(Builder):
    """Inserts ops before a given one."""

    def __init__(self, anchor: Operation) -> None:
        assert anchor.parent is not None
        super().__init__(anchor.parent)
        self.anchor = anchor
        self.span = anchor.span if isinstance(anchor, d.TileOp) else None

    def _put(self, op: Operation) -> None:
        self.block.insert_op_before(op, self.anchor)
