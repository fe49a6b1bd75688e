"""Blocks that meet at a barrier: the kernel is cut there, and each part is a launch of its own; what a block keeps in registers goes through memory."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from tilejit.backends.cuda import plan
from tilejit.backends.cuda.control_plane import control, host
from tilejit.backends.cuda.control_plane.frame import Frame, Making
from tilejit.backends.cuda.control_plane.host import Memory, Number
from tilejit.backends.cuda.control_plane.keeping import room_for, store
from tilejit.backends.cuda.grids.meetings import Meetings, is_cheap
from tilejit.backends.cuda.text.values import Scalar, Tile, Value, index
from tilejit.passes.kernels import name_hint
from tilejit.passes.rewriting import free_values
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.transfers import sync_class
from tilejit.types.values import ScalarType, TileType

_ENDS = (d.ReturnOp, d.YieldOp, d.ConditionOp)
Write = tuple[SSAValue, SSAValue]
"""What is handed on under another name: (the new one, the old one)."""


def run_in_phases(frame: Frame, function: d.FuncOp, blocks: Number) -> bool:
    """Launch a kernel with barriers; False where it has none."""
    if not any(sync_class(op) is not None for op in function.walk()):
        return False
    phases, saved = _Phases(frame, function, blocks), frame.block_count
    frame.block_count = blocks
    try:
        steps = frame.inner(lambda: phases.run(function.body.block))
    finally:
        frame.block_count = saved
    frame.steps += [*phases.rooms, *steps]
    return True


class _Phases:
    """The launches of a kernel, and the loops and branches around them."""

    def __init__(self, frame: Frame, function: d.FuncOp, blocks: Number) -> None:
        self.frame, self.name, self.blocks = frame, function.symbol, blocks
        self.meetings = Meetings(function)
        self.kept: dict[SSAValue, tuple[Memory, Value]] = {}
        """What lies in memory, with a place for each block."""
        self.rooms: list[plan.Step] = []
        """Take that memory, before everything: turns of a loop share it."""

    def run(self, block: Block, writes: Sequence[Write] = ()) -> None:
        """The ops of a block that is cut, and what it hands on at its end."""
        phase: list[Operation] = []
        for op in block.ops:
            if op in self.meetings.on_host:
                self.frame.step(op)
            elif sync_class(op) is not None:
                self.launch(phase)
                phase = []
            elif isinstance(op, d.ForOp | d.WhileOp | d.IfOp) and self.meetings.cuts(op):
                self.launch(phase, self.begun(op))
                phase = []
                self.control(op)
            elif not isinstance(op, _ENDS):
                phase.append(op)
        self.launch(phase, writes)

    # loops and branches -------------------------------------------------------------------------------------------------

    def control(self, op: d.ForOp | d.WhileOp | d.IfOp) -> None:
        """A loop or branch with barriers in it."""
        match op:
            case d.ForOp():
                self.turns(op)
            case d.WhileOp():
                self.while_(op)
            case _:
                self.branch(op)

    def begun(self, op: d.ForOp | d.WhileOp | d.IfOp) -> list[Write]:
        """Make room for what the blocks hand on; what they hand into a loop."""
        handed = op.results if isinstance(op, d.IfOp) else self.arguments(op)
        self.kept |= {value: self.room(value) for value in handed if value in self.meetings.varying}
        return [] if isinstance(op, d.IfOp) else [(value, init) for value, init in zip(handed, op.inits, strict=True) if value in self.kept]

    def arguments(self, op: d.ForOp | d.WhileOp) -> Sequence[SSAValue]:
        return op.body.block.args[1:] if isinstance(op, d.ForOp) else op.before.block.args

    def ended(self, block: Block, names: Sequence[SSAValue]) -> None:
        """A block, and what it hands on: to the blocks through memory, to the host as numbers."""
        last = block.last_op
        assert last is not None
        self.run(block, [(name, value) for name, value in zip(names, last.operands, strict=True) if name in self.kept])

    def turns(self, op: d.ForOp) -> None:
        frame, block, given = self.frame, op.body.block, self.arguments(op)
        same = [place for place, value in enumerate(given) if value not in self.kept]
        carried = control.Carried(frame, [given[place] for place in same], [frame.values[op.inits[place]] for place in same])
        head = control.counted(frame, op)

        def turn() -> None:
            self.ended(block, given)
            carried.move([frame.values[d.end_of(block, d.YieldOp).operands[place]] for place in same])

        frame.steps.append(plan.For(*head, frame.inner(turn)))
        self.hand_out(op.results, given)

    def while_(self, op: d.WhileOp) -> None:
        frame, before, block = self.frame, op.before.block, op.body.block
        same = [place for place, value in enumerate(before.args) if value not in self.kept]
        carried = control.Carried(frame, [before.args[place] for place in same], [frame.values[op.inits[place]] for place in same])
        test = frame.inner(lambda: self.run(before))
        condition, *passed = d.end_of(before, d.ConditionOp).operands
        self.hand_out(block.args, passed)

        def turn() -> None:
            self.ended(block, before.args)
            carried.move([frame.values[d.end_of(block, d.YieldOp).operands[place]] for place in same])

        frame.steps.append(plan.While(test, frame.number(condition).expr, frame.inner(turn)))
        self.hand_out(op.results, passed)

    def hand_out(self, names: Sequence[SSAValue], values: Sequence[SSAValue]) -> None:
        """Let others stand for the same."""
        for name, value in zip(names, values, strict=True):
            if value in self.kept:
                self.kept[name] = self.kept[value]
            else:
                self.frame.values[name] = self.frame.values[value]

    def branch(self, op: d.IfOp) -> None:
        frame, made = self.frame, list[control.Carried]()
        same = [place for place, value in enumerate(op.results) if value not in self.kept]

        def way(block: Block) -> None:
            self.ended(block, op.results)
            values = [frame.values[d.end_of(block, d.YieldOp).operands[place]] for place in same]
            if made:
                made[0].move(values)
            else:
                made.append(control.Carried(frame, [op.results[place] for place in same], values))

        then = frame.inner(lambda: way(op.then.block))
        frame.steps.append(plan.If(frame.number(op.condition).expr, then, frame.inner(lambda: way(op.orelse.block))))

    # launches -----------------------------------------------------------------------------------------------------------

    def launch(self, ops: Sequence[Operation], writes: Sequence[Write] = ()) -> None:
        """One launch of a program for each block."""
        leaving = self.meetings.leaving(ops, {value for _, value in writes})
        if not writes and not leaving and all(map(is_cheap, ops)):
            return
        kernel = self.frame.kernel(self.name)
        kernel.over_blocks(self.blocks)
        body, outside = kernel.body, kernel.body.outside
        body.outside = lambda value: found if (found := self.from_before(kernel, value)) is not None else outside(value)
        for value in free_values(ops):
            _ = body[value]  # here, where all that follows sees it
        for op in ops:
            body.step(op)
        for _, value in writes:
            _ = body[value]  # all of them are read before the first is written
        for name, value in writes:
            store(body, value, self.kept[name][0], body.block_index)
        for value in leaving:
            self.kept[value] = self.take(body[value], value)
            store(body, value, self.kept[value][0], body.block_index)
        self.frame.finish(kernel, self.blocks)

    def from_before(self, kernel: Making, value: SSAValue) -> Value | None:
        """A value of an earlier phase: what was kept of it, or computed again; None: it is the host's."""
        body = kernel.body
        if value in self.kept:
            memory, kind = self.kept[value]
            buffer, place = host.take_memory(kernel.out, memory), body.block_index
            if isinstance(kind, Tile):
                starts = [place, *(index(0) for _ in kind.shape)]
                return body.load_tile(buffer, starts, kind.shape, (index(1), *kind.valid), name_hint(value))
            assert isinstance(kind, Scalar)
            body.order.before_load(body.out, buffer.root)
            return Scalar(body.out.let(name_hint(value), f"tl.load({buffer.pointer} + {place.text})"), kind.dtype)
        if value in self.frame.values or not isinstance(value.owner, Operation):
            return None
        assert is_cheap(value.owner), value.owner
        body.step(value.owner)
        return body.values[value]

    # memory -------------------------------------------------------------------------------------------------------------

    def room(self, value: SSAValue) -> tuple[Memory, Value]:
        """Memory for a value that is known by its type."""
        type = d.type_of(value)
        if isinstance(type, ScalarType):
            return self.take(Scalar("", type.dtype), value)
        shape = tuple(extent for extent in type.shape if isinstance(extent, int)) if isinstance(type, TileType) else ()
        valid = tuple(index(extent) for extent in type.valid if isinstance(extent, int)) if isinstance(type, TileType) else ()
        if not isinstance(type, TileType) or len(shape) != len(type.shape) or len(valid) != len(type.valid):
            raise self.meetings.refused(value)
        return self.take(Tile("", type.dtype, shape, valid), value)

    def take(self, made: Value, value: SSAValue) -> tuple[Memory, Value]:
        saved, self.frame.steps = self.frame.steps, self.rooms
        try:
            return room_for(self.frame, made, value, self.blocks, "syncall"), made
        finally:
            self.frame.steps = saved
