"""Where the blocks of a kernel meet, and what the host must know for it: loops and branches around a barrier are the host's, the same for all blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Block, Operation, SSAValue

from tilejit.errors import UnsupportedFeatureError
from tilejit.passes.rewriting import is_scalar_op
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.equal import asks_place
from tilejit.tile_ir.transfers import sync_class
from tilejit.types.values import TileType

_CHEAP = (d.ConstOp, d.DimOp, d.WindowOp, d.ViewOp, d.StridedOp)
"""Ops that every phase does again for itself."""
_OF_ALL = "get_block_num"
"""The place that all blocks have in common."""


def is_cheap(op: Operation) -> bool:
    """Whether an op is rather done again than kept."""
    return isinstance(op, _CHEAP) or is_scalar_op(op) or (isinstance(op, d.ApplyOp) and asks_place(op))


class Meetings:
    """The barriers of a kernel with the loops and branches around them."""

    def __init__(self, function: d.FuncOp) -> None:
        self.function = function
        self._cut = {function.body.block}
        self._around: dict[Operation, None] = {}
        for op in function.walk():
            holder = op.parent_op() if sync_class(op) is not None else function
            while holder is not None and holder is not function:
                if not isinstance(holder, d.ForOp | d.IfOp | d.WhileOp):
                    raise self.refused(op)
                self._around[holder] = None
                self._cut.update(block for region in holder.regions for block in region.blocks)
                holder = holder.parent_op()
        self._given = dict(self._handed())
        self.varying: set[SSAValue] = set()
        """What is handed on and is another one for each block."""
        while found := [value for value in self._given if value not in self.varying and not self._is_uniform(value)]:
            self.varying.update(found)
        self.on_host = set(self._needed())
        """What the host computes: bounds and conditions, and what all blocks hand on."""

    def cuts(self, op: d.ForOp | d.IfOp | d.WhileOp) -> bool:
        """Whether blocks meet in a loop or branch."""
        return op in self._around

    def refused(self, at: Operation | SSAValue) -> UnsupportedFeatureError:
        op = at if isinstance(at, Operation) else at.owner if isinstance(at.owner, Operation) else at.owner.parent_op()
        return UnsupportedFeatureError(
            "CUDA cuts a kernel at a syncall: a loop or branch around it is the host's, which cannot tell how this one goes on",
            span=op.span if isinstance(op, d.TileOp) else None, help="let it depend on numbers that all blocks have in common, or loop around pl.spmd",
        )  # fmt: skip

    def leaving(self, ops: Sequence[Operation], written: set[SSAValue]) -> list[SSAValue]:
        """Results of a phase that others use and cannot compute again; those of `written` are handed on otherwise."""
        inside = set(ops)
        return [value for op in ops if not is_cheap(op) for value in op.results if self._leaves(value, inside, value in written)]

    def _leaves(self, value: SSAValue, inside: set[Operation], handed: bool) -> bool:
        for use in value.uses:
            op = use.operation
            while op.parent not in self._cut:
                op = op.parent_op()
                assert op is not None
            if isinstance(op, d.ReturnOp) or (handed and isinstance(op, d.YieldOp)):
                continue
            if op not in inside or (is_cheap(op) and any(self._leaves(result, inside, False) for result in op.results)):
                return True
        return False

    # what all blocks have in common -------------------------------------------------------------------------------------

    def _handed(self) -> Iterator[tuple[SSAValue, list[SSAValue]]]:
        """What loops and branches around barriers hand on, with what it may be and what decides that."""
        for op in self._around:
            if isinstance(op, d.ForOp):
                block, last = op.body.block, d.end_of(op.body.block, d.YieldOp)
                for argument, result, init, value in zip(block.args[1:], op.results, op.inits, last.operands, strict=True):
                    yield argument, [init, value]
                    yield result, [init, value]
            elif isinstance(op, d.WhileOp):
                before, block, last = op.before.block, op.body.block, d.end_of(op.body.block, d.YieldOp)
                yield from ((argument, [init, value]) for argument, init, value in zip(before.args, op.inits, last.operands, strict=True))
                _, *passed = d.end_of(before, d.ConditionOp).operands
                for argument, result, value in zip(block.args, op.results, passed, strict=True):
                    yield argument, [value]
                    yield result, [value]
            elif isinstance(op, d.IfOp):
                ends = [d.end_of(block, d.YieldOp).operands for block in (op.then.block, op.orelse.block)]
                yield from ((result, [*values]) for result, *values in zip(op.results, *ends, strict=True))

    def _is_uniform(self, value: SSAValue) -> bool:
        """Whether all that a value may be is the same in all blocks, and known to the host."""
        return not isinstance(d.type_of(value), TileType) and all(map(self._is_common, self._given[value]))

    def _is_common(self, value: SSAValue) -> bool:
        if value in self._given:
            return value not in self.varying
        owner = value.owner
        if isinstance(owner, Block):
            return owner in self._cut  # a parameter, or the number of a turn
        if isinstance(owner, d.ApplyOp) and asks_place(owner):
            return owner.op == _OF_ALL
        return is_cheap(owner) and all(map(self._is_common, owner.operands))

    def _needed(self) -> Iterator[Operation]:
        todo = [value for name, given in self._given.items() if name not in self.varying for value in given]
        for op in self._around:
            decides = [op.lower, op.upper, op.step] if isinstance(op, d.ForOp) else [op.condition] if isinstance(op, d.IfOp) else []
            if isinstance(op, d.WhileOp):
                condition, *passed = d.end_of(op.before.block, d.ConditionOp).operands
                decides = [condition, *(value for value in passed if value not in self.varying)]
            if not all(map(self._is_common, decides)):
                raise self.refused(op)
            todo += decides
        while todo:
            owner = todo.pop().owner
            if isinstance(owner, Operation) and owner not in self._around:
                yield owner
                todo += owner.operands
