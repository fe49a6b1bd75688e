"""Tensors that leave a region: what makes them is moved in front of it, else they are copied into one that was made there.

A copy is another tensor. It stands for the one it was made of where nobody can tell: where no other name that outlives the region
may be that tensor, or none of them is written afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue

from tilejit.errors import UnsupportedFeatureError
from tilejit.lazy import lazy
from tilejit.passes.extents import extents_of
from tilejit.passes.kernels import name_hint
from tilejit.passes.rewriting import Before, is_buffer, is_neutral, root
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import Aliases, Roots, between, origins, sources_of
from tilejit.tile_ir.program import Program

_HELP = "let another tensor leave it: a copy `+t`, or one that pl.create_tensor made before the region"


class Leaving:
    """The tensors that one region hands out, and what they are called outside."""

    def __init__(self, program: Program, region: d.RegionOp) -> None:
        self.program, self.region = program, region
        self.block = region.body.block
        self.copied: dict[SSAValue, SSAValue] = {}
        """Tensors of the region, and those that get their cells when it ends."""

    @lazy
    def aliases(self) -> Aliases:
        return Aliases(self.program)

    def outside(self, value: SSAValue) -> SSAValue:
        """What a buffer or a constant that leaves is outside."""
        value = _only_source(value)
        if self._moves(value):
            self._move(value)
            return value
        base = root(value)
        if self._moves(base) or not all(self._moves(scalar) for scalar in _offsets(value, base)):
            base = value
        if base not in self.copied:
            self.copied[base] = self._room(base)
        return self._window(value, base)

    def _window(self, value: SSAValue, base: SSAValue) -> SSAValue:
        """The same window, of the copy."""
        if value is base:
            return self.copied[base]
        maker = value.owner
        assert isinstance(maker, d.WindowOp | d.ViewOp | d.StridedOp | d.PeerOp)
        inner = self._window(maker.buffer, base)
        for operand in maker.operands[1:]:
            self._move(operand)
        return Before(self.region).insert(maker.clone({maker.buffer: inner})).results[0]

    # in front of the region -----------------------------------------------------------------------------------------------

    def _inside(self, value: SSAValue) -> bool:
        return self.block.is_ancestor(value.owner)

    def _moves(self, value: SSAValue) -> bool:
        """Whether what makes a value can stand in front of the region."""
        maker = value.owner
        if not self._inside(value):
            return True
        if not isinstance(maker, Operation) or maker.parent is not self.block or not (is_neutral(maker) or self._reads_early(maker)):
            return False
        return all(self._moves(operand) for operand in maker.operands)

    def _reads_early(self, op: Operation) -> bool:
        """Whether an element is read that nothing in the region has written before."""
        if not isinstance(op, d.ReadOp):
            return False
        source = self.aliases.roots(op.source)
        first = self.block.first_op
        before = [] if first is None or first is op else [first, *between(first, op)][:-1]
        return not any(self.aliases.writes(earlier) & source for earlier in before)

    def _move(self, value: SSAValue) -> None:
        maker = value.owner
        if not self._inside(value):
            return
        assert isinstance(maker, Operation) and self.region.parent is not None
        for operand in maker.operands:
            self._move(operand)
        maker.detach()
        self.region.parent.insert_op_before(maker, self.region)

    # copies ---------------------------------------------------------------------------------------------------------------

    def _room(self, value: SSAValue) -> SSAValue:
        """A new buffer that takes the cells of `value` when the region ends."""
        if self._is_told_apart(value):
            problem = "a tensor that is chosen inside a region, and written after it, cannot leave it"
            raise UnsupportedFeatureError(problem, span=self.region.span, help=_HELP)
        anchor = Before(self.region)
        extents = extents_of(value, anchor, lambda other: not self._inside(other))
        anchor.hint = name_hint(value)
        return anchor.create(d.buffer_type(value), extents)

    def _is_told_apart(self, value: SSAValue) -> bool:
        """Whether a write after the region may show that a copy is not the tensor itself."""
        roots = self.aliases.roots(value)
        yielded = d.end_of(self.block, d.YieldOp).values
        names = {result for result, other in zip(self.region.results, yielded, strict=True) if is_buffer(other) and self.aliases.roots(other) & roots}
        outer = {item for item in roots if not self._inside(item)}
        others = {result for result in names if _only_source(yielded[list(self.region.results).index(result)]) is not value}
        if not outer and not others:
            return False
        known: Roots = frozenset(outer | names)
        return any(self.aliases.writes(op) & known for op in _afterwards(self.region))


def _offsets(value: SSAValue, base: SSAValue) -> Iterator[SSAValue]:
    """The scalars that place a window in its base."""
    while value is not base:
        maker = value.owner
        assert isinstance(maker, d.WindowOp | d.ViewOp | d.StridedOp | d.PeerOp)
        yield from maker.operands[1:]
        value = maker.buffer


def _only_source(value: SSAValue) -> SSAValue:
    """What a value is that branches and loops hand on, where it is the same on all ways; else itself."""
    found = origins(value, _handed_on)
    return found.pop() if len(found) == 1 else value


def _handed_on(value: SSAValue) -> list[SSAValue] | None:
    """What branches and loops hand on as a value; None: it is none of theirs."""
    owner = value.owner
    handed = isinstance(owner.parent_op(), d.ForOp | d.WhileOp) if isinstance(owner, Block) else isinstance(owner, d.IfOp | d.ForOp | d.WhileOp)
    return sources_of(value) if handed else None


def _afterwards(op: Operation) -> Iterator[Operation]:
    """The ops that may run after `op` in its function: those behind it, and everything in a loop around it."""
    while not isinstance(op, d.FuncOp):
        block = op.parent
        parent = op.parent_op()
        assert block is not None and parent is not None
        if isinstance(parent, d.ForOp | d.WhileOp):
            yield parent
        last = block.last_op
        if last is not None and last is not op:
            yield from between(op, last)
        op = parent

