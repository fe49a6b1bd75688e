"""Marks what several threads may run: blocks of a launch, trips of a parallel loop, launches that do not depend on each other.

Marks are statics of the op: `share` is an estimate of one block or trip in nanoseconds (None: unknown), and a launch with `with_next` runs
side by side with the launch that follows. The author asserts the independence of blocks and parallel trips; where it is plain that
they all write one place, they run one after the other nevertheless.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Block, Operation, SSAValue, Use

from tilejit import ops
from tilejit.ops.facts import Effect, Fails
from tilejit.passes import cost
from tilejit.passes.cost import estimate, trips_of
from tilejit.passes.rewriting import is_scalar_op
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import Aliases, is_buffer, written_by
from tilejit.tile_ir.build import constant_of
from tilejit.tile_ir.cross_core import CrossCore
from tilejit.tile_ir.program import Program


def share(program: Program) -> None:
    """Mark the launches and loops of a program."""
    _Sharing(program).run()


class _Sharing:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.functions = program.functions
        self.aliases = Aliases(program)
        self.cross = CrossCore(program)
        self.speaking: dict[str, bool] = {}

    def run(self) -> None:
        for function in self.functions.values():
            for op in function.walk():
                if isinstance(op, d.LaunchOp) and op.blocks is not None:
                    self.launch(op)
                elif isinstance(op, d.ForOp) and op.static("kind") == "parallel" and not op.results:
                    self.loop(op)
        for function in self.functions.values():
            for op in list(function.walk()):
                for region in op.regions:
                    for block in region.blocks:
                        self.side_by_side(block)

    def launch(self, op: d.LaunchOp) -> None:
        kernel = self.functions[op.callee.data]
        if not self.meets(kernel):
            self.trips(op, kernel.body.block, set(), blocks_vary=True)

    def loop(self, op: d.ForOp) -> None:
        if not self.meets(op):
            self.trips(op, op.body.block, {op.body.block.args[0]}, blocks_vary=False)

    def trips(self, op: d.LaunchOp | d.ForOp, block: Block, varying: set[SSAValue], blocks_vary: bool) -> None:
        trip = Trip(self.program, self.aliases)
        if trip.apart(block, varying, blocks_vary):
            found = estimate(self.program, block.ops)
            if found is None or found * cost.CONTENDED_BYTES_PER_NS >= trip.contended:
                op.attributes["share"] = d.Static(found)

    def meets(self, op: Operation) -> bool:
        """Whether `op`, or what it calls, waits for another block or side, or speaks to the outside in order.

        Kernels that only wait for each other, inside one block or trip, are nobody else's business.
        """
        return (self.cross.active and bool(self.cross.transfers(op) or self.cross.syncs(op))) or self.speaks(op)

    def speaks(self, op: Operation) -> bool:
        for inner in op.walk():
            if isinstance(inner, d.EffectOp) and (inner.op in ("print", "breakpoint") or ops.facts(inner.op).effect is Effect.Ranks):
                return True
            if isinstance(inner, d.CallOp | d.LaunchOp):
                name = inner.callee.data
                if name not in self.speaking:
                    self.speaking[name] = False
                    self.speaking[name] = self.speaks(self.functions[name])
                if self.speaking[name]:
                    return True
        return False

    # launches -------------------------------------------------------------------------------------------------------------

    def side_by_side(self, block: Block) -> None:
        """Mark runs of launches in which none touches what another one writes."""
        run: list[d.LaunchOp] = []
        for op in block.ops:
            if isinstance(op, d.LaunchOp) and op.blocks is None and not self.meets(op) and not self.scales(self.functions[op.callee.data]):
                if not all(self.independent(other, op) for other in run):
                    self.mark(run)
                    run = []
                run.append(op)
            elif not _is_harmless(op):
                self.mark(run)
                run = []
        self.mark(run)

    def scales(self, kernel: d.FuncOp) -> bool:
        """Whether most of a kernel is large operators and loops that are shared out themselves, to more threads than there are launches."""
        parts = {op for op in kernel.body.block.ops if isinstance(op, d.GroupOp | d.ApplyOp) or "share" in op.attributes}
        others = [op for op in kernel.body.block.ops if op not in parts]
        own, rest = estimate(self.program, parts), estimate(self.program, others)
        if own is not None and rest is not None and own + rest < cost.WORTH_NS:
            return False
        return bool(parts) and (rest is None or own is None or own > rest)

    def mark(self, run: Sequence[d.LaunchOp]) -> None:
        if len(run) < 2:
            return
        costs = [estimate(self.program, self.functions[op.callee.data].body.block.ops) for op in run]
        known = [found for found in costs if found is not None]
        if len(known) == len(costs) and sum(known) - max(known) < cost.WORTH_NS:
            return
        for op in run[:-1]:
            op.attributes["with_next"] = d.Static(True)
        run[-1].attributes["share"] = d.Static(sum(known) // len(known) if len(known) == len(costs) else None)

    def independent(self, first: d.LaunchOp, second: d.LaunchOp) -> bool:
        written = [self.aliases.written_params(op.callee.data) for op in (first, second)]
        for i, a in enumerate(first.args):
            for j, b in enumerate(second.args):
                if (i in written[0] or j in written[1]) and is_buffer(a) and is_buffer(b) and self.aliases.roots(a) & self.aliases.roots(b):
                    boxes = self.touched(first, i), self.touched(second, j)
                    if boxes[0] is None or boxes[1] is None or boxes[0][0] is not boxes[1][0]:
                        return False
                    if not all(_apart(box, other) for box in boxes[0][1] for other in boxes[1][1]):
                        return False
        return True

    def touched(self, launch: d.LaunchOp, position: int) -> tuple[SSAValue, list[Box]] | None:
        """A buffer, and the places in it to which a launch has access through one of its arguments; None: not known."""
        argument = launch.args[position]
        outer = _box(argument)
        if outer is not None:
            return argument.owner.buffer if isinstance(argument.owner, d.WindowOp) else argument, [outer]
        boxes = [_box(use.operation.results[0]) if isinstance(use.operation, d.WindowOp) and use.index == 0 else None for use in self.uses(launch, position)]
        known = [box for box in boxes if box is not None]
        return (argument, known) if len(known) == len(boxes) else None

    def uses(self, launch: d.LaunchOp, position: int) -> list[Use]:
        return list(self.functions[launch.callee.data].body.block.args[position].uses)


Box = list[tuple[int, int]]
"""Start and size in each dim."""


def _box(value: SSAValue) -> Box | None:
    """The place of a handle that is a window at a constant place."""
    owner = value.owner
    if not isinstance(owner, d.WindowOp) or owner.static("clamp"):
        return None
    starts, sizes = [constant_of(item) for item in owner.offsets], [constant_of(item) for item in owner.extents]
    pairs = [(start, size) for start, size in zip(starts, sizes, strict=True) if isinstance(start, int) and isinstance(size, int)]
    return pairs if len(pairs) == len(starts) else None


def _apart(first: Box, second: Box) -> bool:
    return any(start + size <= other or other + length <= start for (start, size), (other, length) in zip(first, second, strict=True))


def _is_harmless(op: Operation) -> bool:
    """Whether an op may as well run before the launches in front of it: it reads no memory, and never fails."""
    if isinstance(op, d.WindowOp):
        shape, box = d.shaped_type(op.buffer).shape, _box(op.result)
        inside = box is not None and all(isinstance(extent, int) and a >= 0 and a + n <= extent for (a, n), extent in zip(box, shape, strict=True))
        return inside
    if isinstance(op, d.CreateOp):
        return op.static("init") is None and not op.extents
    if is_scalar_op(op):
        return isinstance(op, d.ApplyOp) and ops.facts(op.op).fails is Fails.Never
    return isinstance(op, d.ConstOp | d.DimOp)


class Trip:
    """What differs from trip to trip, and whether every write to shared memory goes where no other trip writes, as far as can be seen."""

    def __init__(self, program: Program, aliases: Aliases) -> None:
        self.functions = program.functions
        self.aliases = aliases
        self.entered: set[tuple[str, frozenset[int]]] = set()
        self.contended = 0
        """Bytes that each trip adds to memory which the others add to as well."""

    def apart(self, block: Block, varying: set[SSAValue], blocks_vary: bool) -> bool:
        """Whether writes below `block` are atomic, or at places that depend on a varying value."""
        return self._walk(block, varying, blocks_vary, block)

    def _walk(self, block: Block, varying: set[SSAValue], blocks_vary: bool, trip: Block) -> bool:
        for op in block.ops:
            if any(operand in varying for operand in op.operands) or (blocks_vary and isinstance(op, d.ApplyOp) and op.op == "get_block_idx"):
                varying.update(op.results)
                if isinstance(op, d.IfOp | d.WhileOp):
                    continue  # Which trips write is decided by something that differs between them.
                for region in op.regions:
                    varying.update(region.block.args)
            for region in op.regions:
                if not self._walk(region.block, varying, blocks_vary, trip):
                    return False
                if _ends_varying(region.block, varying):
                    varying.update(op.results)
            if not self._writes_apart(op, varying, blocks_vary, trip):
                return False
        return True

    def _writes_apart(self, op: Operation, varying: set[SSAValue], blocks_vary: bool, trip: Block) -> bool:
        if isinstance(op, d.CallOp | d.LaunchOp):
            return self._call_apart(op, varying, blocks_vary and not (isinstance(op, d.LaunchOp) and op.blocks is not None), trip)
        if isinstance(op, d.StoreOp | d.ElementWrite):
            places: Iterable[SSAValue] = (op.buffer, *(op.offsets if isinstance(op, d.StoreOp) else op.indices))
            if self._is_own(op.buffer, trip) or any(value in varying for value in places):
                return True
            self.contended += _bytes_added(op)
            return bool(op.static("atomic"))
        written = written_by(op)
        return written is None or self._is_own(written, trip) or any(operand in varying for operand in op.operands)

    def _call_apart(self, op: d.CallOp | d.LaunchOp, varying: set[SSAValue], blocks_vary: bool, trip: Block) -> bool:
        callee = self.functions[op.callee.data]
        positions = frozenset(i for i, arg in enumerate(op.args) if arg in varying or (is_buffer(arg) and self._is_own(arg, trip)))
        if (callee.symbol, positions) in self.entered:
            return True
        self.entered.add((callee.symbol, positions))
        params = callee.body.block.args
        return self.apart(callee.body.block, {params[i] for i in positions}, blocks_vary)

    def _is_own(self, buffer: SSAValue, trip: Block) -> bool:
        """Whether a buffer is made anew in every trip."""
        return all(_inside(root, trip) for root in self.aliases.roots(buffer))


def _bytes_added(op: d.StoreOp | d.ElementWrite) -> int:
    """Bytes that an op writes in one run of the function around it, as far as that is known."""
    size = d.shaped_type(op.buffer).dtype.get_byte()
    if isinstance(op, d.StoreOp):
        for extent in d.shaped_type(op.value).shape:
            size *= extent if isinstance(extent, int) else 1
    parent = op.parent_op()
    while parent is not None:
        size *= trips_of(parent) or 1 if isinstance(parent, d.ForOp) else 1
        parent = parent.parent_op()
    return size


def _ends_varying(block: Block, varying: set[SSAValue]) -> bool:
    last = block.last_op
    return last is not None and any(operand in varying for operand in last.operands)


def _inside(value: SSAValue, block: Block) -> bool:
    """Whether an op somewhere in `block` makes the value."""
    return isinstance(value.owner, Operation) and block.is_ancestor(value.owner)
