"""Statements that read what they write: programs run side by side, so what is read is copied first."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilejit import ops
from tilejit.ops.facts import Effect
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import Aliases, is_buffer, written_by
from tilejit.tile_ir.build import Builder
from tilejit.tile_ir.program import Program
from tilejit.types.values import BufferType


def keep_apart(program: Program) -> None:
    """Let stores and statements of the table take a copy of each buffer that may share memory with the one they write."""
    aliases = Aliases(program)
    found = [(op, place) for op in program.module.walk() for target, place in _read(op) if aliases.roots(op.operands[place]) & aliases.roots(target)]
    for op, place in found:
        op.operands[place] = _copied(op, op.operands[place])


def _read(op: Operation) -> Iterator[tuple[SSAValue, int]]:
    """What a statement writes, with the places of the buffers among its operands that it reads."""
    if isinstance(op, d.StoreOp):
        if is_buffer(op.value) and op.value is not op.buffer:
            yield op.buffer, 0
        return
    target = written_by(op)
    if not isinstance(op, d.EffectOp) or target is None or ops.facts(op.op).effect in (Effect.Cross, Effect.Ranks):
        return
    place = 0
    for name, count in op.groups:
        if count < 0 and name != ops.facts(op.op).writes and is_buffer(op.args[place]):
            yield target, place
        place += abs(count)


def _copied(op: Operation, value: SSAValue) -> SSAValue:
    """A tensor with the content of a buffer, made before the statement."""
    parent = op.parent_op()
    before, type = parent if isinstance(parent, d.GroupOp) else op, d.type_of(value)
    assert isinstance(type, BufferType)
    made = Builder(Block())
    with made.spanning(op.span if isinstance(op, d.TileOp) else None):
        extents = [made.dim(value, axis) for axis, extent in enumerate(type.shape) if not isinstance(extent, int)]
        copy = made.create(type, extents)
        made.store(value, copy, [made.const(0)] * type.rank)
    new = list(made.block.ops)
    for item in new:
        item.detach()
    Rewriter.insert_op(new, InsertPoint.before(before))
    return copy
