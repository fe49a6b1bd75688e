"""Blocks that meet at a barrier: the kernel is cut there, and each part is a launch of its own; what a block keeps in registers goes through memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Operation, SSAValue

from tilejit.backends.cuda.control_plane import host
from tilejit.backends.cuda.control_plane.frame import Frame
from tilejit.backends.cuda.control_plane.host import Memory, Number
from tilejit.backends.cuda.control_plane.keeping import write
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.text.values import Scalar, Tile, Value, index
from tilejit.errors import UnsupportedFeatureError
from tilejit.passes.kernels import name_hint
from tilejit.passes.rewriting import free_values, is_scalar_op
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.equal import asks_place
from tilejit.tile_ir.transfers import sync_class

_CHEAP = (d.ConstOp, d.DimOp, d.WindowOp, d.ViewOp, d.StridedOp)
"""Ops that every phase does again for itself."""


def run_in_phases(frame: Frame, function: d.FuncOp, blocks: Number) -> bool:
    """Launch a kernel with barriers; False where it has none."""
    meetings = [op for op in function.walk() if sync_class(op) is not None]
    if not meetings:
        return False
    block = function.body.block
    inner = next((op for op in meetings if op.parent is not block), None)
    if isinstance(inner, d.EffectOp):
        raise UnsupportedFeatureError(
            "CUDA cuts a kernel at a syncall, which must not stand in a loop or branch", span=inner.span, help="loop outside the region, around pl.spmd"
        )
    phases: list[list[Operation]] = [[]]
    for op in block.ops:
        if sync_class(op) is not None:
            phases.append([])
        elif not isinstance(op, d.ReturnOp):
            phases[-1].append(op)
    kept: dict[SSAValue, tuple[Memory, Value]] = {}
    for number, phase in enumerate(phases):
        _Phase(frame, function, blocks, phases, number, kept).run(phase)
    return True


def _is_cheap(op: Operation) -> bool:
    return isinstance(op, _CHEAP) or is_scalar_op(op) or (isinstance(op, d.ApplyOp) and asks_place(op))


class _Phase:
    """One launch."""

    def __init__(
        self, frame: Frame, function: d.FuncOp, blocks: Number, phases: Sequence[Sequence[Operation]], number: int, kept: dict[SSAValue, tuple[Memory, Value]]
    ) -> None:
        self.frame, self.blocks, self.kept = frame, blocks, kept
        self.makers: dict[SSAValue, Operation] = {result: op for phase in phases for op in phase for result in op.results}
        self.later = [op for phase in phases[number + 1 :] for op in phase]
        self.kernel = frame.kernel(function.symbol)
        self.kernel.over_blocks(blocks)
        self.outside = self.kernel.body.outside
        self.kernel.body.outside = self._from_before

    def run(self, ops: Sequence[Operation]) -> None:
        body = self.kernel.body
        for op in ops:
            body.step(op)
        for value in self._crossing(ops):
            self._keep(body, value)
        self.frame.finish(self.kernel, self.blocks)

    def _from_before(self, value: SSAValue) -> Value:
        """A value of an earlier phase: computed again, or what was kept of it."""
        maker = self.makers.get(value)
        if maker is None:
            return self.outside(value)
        body = self.kernel.body
        if value in self.kept:
            memory, kind = self.kept[value]
            buffer = host.take_memory(self.kernel.out, memory)
            place = body.block_index
            if isinstance(kind, Tile):
                starts = [place, *(index(0) for _ in kind.shape)]
                return body.load_tile(buffer, starts, kind.shape, (index(1), *kind.valid), name_hint(value))
            assert isinstance(kind, Scalar)
            return Scalar(body.out.let(name_hint(value), f"tl.load({buffer.pointer} + {place.text})"), kind.dtype)
        assert _is_cheap(maker), maker
        body.step(maker)
        return body.values[value]

    def _crossing(self, ops: Sequence[Operation]) -> list[SSAValue]:
        """Results of this phase that later ones use and cannot compute again."""
        own = {result for op in ops for result in op.results}
        found: dict[SSAValue, None] = {}
        todo: list[SSAValue] = [value for op in self.later for value in _used(op)]
        seen: set[SSAValue] = set()
        while todo:
            value = todo.pop()
            maker = self.makers.get(value)
            if value in seen or maker is None:
                continue
            seen.add(value)
            if _is_cheap(maker):
                todo += maker.operands
            elif value in own:
                found[value] = None
        return list(found)

    def _keep(self, body: Body, value: SSAValue) -> None:
        self.kept[value] = write(self.frame, body, value, body.block_index, self.blocks, "syncall")


def _used(op: Operation) -> Iterable[SSAValue]:
    return free_values([op])
