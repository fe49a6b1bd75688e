"""Makes run-time valid regions explicit on the control plane: whatever carries such a tile carries its valid extents too.

Inside a kernel a value knows its valid region; a buffer does not. So regions hand out, and loops and branches carry, one INDEX
for every valid extent that only the run knows.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Block, Operation, SSAValue

from tilejit.dtypes import INDEX
from tilejit.passes.rewriting import Before, remove, replace
from tilejit.tile_ir import dialect as d
from tilejit.types.values import ScalarType, TileType

Extents = dict[int, SSAValue]
"""Valid extents by axis."""


def open_axes(value: SSAValue) -> list[int]:
    """The axes of a tile whose valid extent only the run knows; a tensor-level value is valid as far as it reaches."""
    type = d.type_of(value)
    if not isinstance(type, TileType) or (type.level == "tensor" and type.fully_valid):
        return []
    return [axis for axis, dim in enumerate(type.valid) if not isinstance(dim, int)]


class ValidExtents:
    """The valid extents of the values of a control-plane function, as scalars."""

    def __init__(self, function: d.FuncOp) -> None:
        self.known: dict[SSAValue, Extents] = {}
        self._block(function.body.block)

    def _block(self, block: Block) -> None:
        for op in list(block.ops):
            if isinstance(op, d.ValidOp) and op.source in self.known:
                replace(op, [self.known[op.source][op.axis]])
            elif isinstance(op, d.RegionOp):
                self._region(op)
            elif isinstance(op, d.ForOp):
                self._for(op)
            elif isinstance(op, d.WhileOp):
                self._while(op)
            elif isinstance(op, d.IfOp):
                self._if(op)

    def _record(self, values: Sequence[SSAValue], scalars: Sequence[SSAValue]) -> None:
        rest = iter(scalars)
        for value in values:
            axes = open_axes(value)
            if axes:
                self.known[value] = {axis: next(rest) for axis in axes}

    def _widen(self, blocks: Sequence[Block], values: Sequence[SSAValue], first: int) -> None:
        """Give each block one more argument per open axis; `first`: the position of the first carried argument."""
        count = sum(len(open_axes(value)) for value in values)
        for block in blocks:
            arguments = [block.insert_arg(d.IRType(ScalarType(INDEX)), len(block.args)) for _ in range(count)]
            self._record(block.args[first : first + len(values)], arguments)

    def _hand_on(self, block: Block, values: Sequence[SSAValue], targets: Sequence[SSAValue]) -> None:
        """Let the terminator of a block pass on the valid extents of `values`, for the open axes of what they become."""
        terminator = d.end_of(block, d.TileOp)
        terminator.operands = (*terminator.operands, *self._extents(values, targets, Before(terminator)))

    def _extents(self, values: Sequence[SSAValue], targets: Sequence[SSAValue], builder: Before) -> list[SSAValue]:
        out: list[SSAValue] = []
        for value, target in zip(values, targets, strict=True):
            known = self.known.get(value, {})
            out += [known[axis] if axis in known else builder.valid(value, axis) for axis in open_axes(target)]
        return out

    def _region(self, op: d.RegionOp) -> None:
        terminator = d.end_of(op.body.block, d.YieldOp)
        if any(open_axes(result) for result in op.results):
            self._hand_on(op.body.block, list(terminator.values), op.results)
            self._rebuild(op, [op.blocks])

    def _if(self, op: d.IfOp) -> None:
        for region in op.regions:
            self._block(region.block)
            terminator = d.end_of(region.block, d.YieldOp)
            self._hand_on(region.block, list(terminator.values), op.results)
        if any(open_axes(result) for result in op.results):
            self._rebuild(op, [op.condition])

    def _for(self, op: d.ForOp) -> None:
        block = op.body.block
        carried = list(block.args[1:])
        inits = [*op.inits, *self._extents(op.inits, carried, Before(op))]
        self._widen([block], carried, 1)
        self._block(block)
        terminator = d.end_of(block, d.YieldOp)
        self._hand_on(block, list(terminator.values), carried)
        if len(inits) > len(op.inits):
            self._rebuild(op, [op.lower, op.upper, op.step, inits])

    def _while(self, op: d.WhileOp) -> None:
        before, body = op.before.block, op.body.block
        carried = list(before.args)
        inits = [*op.inits, *self._extents(op.inits, carried, Before(op))]
        self._widen([before], carried, 0)
        self._widen([body], list(body.args), 0)
        self._block(before)
        self._block(body)
        condition, terminator = before.last_op, body.last_op
        assert isinstance(condition, d.ConditionOp) and isinstance(terminator, d.YieldOp)
        self._hand_on(before, list(condition.values), op.results)
        self._hand_on(body, list(terminator.values), carried)
        if len(inits) > len(op.inits) or any(open_axes(result) for result in op.results):
            self._rebuild(op, [inits])

    def _rebuild(self, op: Operation, operands: list[SSAValue | list[SSAValue] | None]) -> None:
        """The same op with one more INDEX result per open axis."""
        old = list(op.results)
        count = sum(len(open_axes(result)) for result in old)
        types: list[Attribute] = [*(result.type for result in old), *(d.IRType(ScalarType(INDEX)) for _ in range(count))]
        regions = [op.detach_region(region) for region in list(op.regions)]
        new = type(op).build(operands=operands, result_types=[types], regions=regions, attributes=dict(op.attributes))  # type: ignore[attr-defined]
        assert op.parent is not None
        op.parent.insert_op_before(new, op)
        for result, replacement in zip(old, new.results, strict=False):
            result.replace_all_uses_with(replacement)
        self._record(new.results[: len(old)], new.results[len(old) :])
        remove(op)
