"""Kernels that run side by side, in one program: their statements are woven together in an order in which every pop finds what was pushed.

Each kernel, and each lane of one, is a strand with a thread of its own; one runs at a time, until it takes a tile that is not there yet. Loops with
transfers inside are entered together: strands that stand before loops of equal length share one.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from tilejit.backends.cuda.program import memory
from tilejit.backends.cuda.program.body import Body
from tilejit.backends.cuda.program.control import Carried, loop_head
from tilejit.backends.cuda.program.masks import as_bytes
from tilejit.backends.cuda.text import numbers
from tilejit.backends.cuda.text.values import Scalar, Tile, Value, index
from tilejit.dtypes import INDEX
from tilejit.errors import UnsupportedFeatureError
from tilejit.passes.kernels import name_hint
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.cross_core import Run
from tilejit.tile_ir.transfers import TO_VECTOR, Fifo, Transfer, crosses, part_of, same_tile, transfer_of


class Weaver:
    """Runs the strands of one program, one at a time."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.strands: list[Strand] = []
        self.queues: dict[tuple[Fifo, int], deque[tuple[Transfer, Tile]]] = defaultdict(deque)
        self.turn = threading.Condition()
        self.now: Strand | None = None
        self.error: BaseException | None = None
        self.turn_name = ""

    def start(self, works: Sequence[tuple[Body, Callable[[], object]]]) -> None:
        """Write all strands."""
        self.strands = [Strand(self, body, work) for body, work in works]
        for strand in self.strands:
            strand.thread.start()
        self.pick()
        for strand in self.strands:
            strand.thread.join()
        if self.error is not None:
            raise self.error

    def pick(self) -> None:
        """Let the first strand go on that can."""
        with self.turn:
            self.now = self._next()
            self.turn.notify_all()

    def _next(self) -> Strand | None:
        alive = [strand for strand in self.strands if not strand.done]
        if self.error is not None:
            return alive[0] if alive else None
        for strand in alive:
            if strand.ready is not None and strand.ready():
                return strand
        keys = {strand.meeting for strand in alive}
        if alive and None not in keys and len(keys) == 1:
            for strand in alive:
                strand.meeting, strand.ready = None, lambda: True
            alive[0].leads = True
            return alive[0]
        if alive:
            self.error = UnsupportedFeatureError(
                "CUDA cannot put these kernels in one order while compiling: a tile is waited for that only the run can tell when it comes",
                span=alive[0].body.out.span, help="let both sides push and take in loops of the same length",
            )  # fmt: skip
            return alive[0]
        return None


class Strand:
    """One kernel or lane."""

    def __init__(self, weaver: Weaver, body: Body, work: Callable[[], object]) -> None:
        self.weaver, self.body, self.work = weaver, body, work
        self.done = False
        self.leads = False
        self.ready: Callable[[], bool] | None = lambda: True
        self.meeting: tuple[object, ...] | None = None
        self.thread = threading.Thread(target=self._main, daemon=True)
        body.strand = self

    def _main(self) -> None:
        try:
            self._wait()
            self.work()
        except BaseException as error:
            self.weaver.error = self.weaver.error or error
        self.done = True
        self.weaver.pick()

    def _wait(self) -> None:
        with self.weaver.turn:
            while self.weaver.now is not self:
                self.weaver.turn.wait()
        if self.weaver.error is not None:
            raise self.weaver.error

    def yield_until(self, ready: Callable[[], bool]) -> None:
        """Let others run until something holds."""
        if ready():
            return
        self.ready = ready
        self.weaver.pick()
        self._wait()
        self.ready = lambda: True

    def meet(self, key: tuple[object, ...]) -> None:
        """Wait until every other strand stands at the same place."""
        self.leads = False
        self.ready, self.meeting = None, key
        self.weaver.pick()
        self._wait()

    # tiles ----------------------------------------------------------------------------------------------------------------

    def _side(self, transfer: Transfer) -> int:
        lane = self.body.lane.const
        return transfer.lane if transfer.lane is not None else int(lane or 0)

    def push(self, transfer: Transfer, tile: Tile) -> None:
        sent = (transfer, as_bytes(self.body, tile))
        queues, lane = self.weaver.queues, self._side(transfer)
        if transfer.fifo[0] == TO_VECTOR:
            for side in range(self.weaver.run.readers(transfer.fifo)):
                queues[transfer.fifo, side].append(sent)
        elif transfer.split or lane == 0:  # Whole tiles are lane 0's business.
            queues[transfer.fifo, lane if transfer.split else 0].append(sent)

    def pop(self, transfer: Transfer) -> Tile:
        lane = self._side(transfer)
        if transfer.fifo[0] == TO_VECTOR:
            push, tile = self._take(transfer, lane)
            if same_tile(push.type, transfer.type):
                return self._typed(tile, transfer)
            part = part_of(push.type, transfer.type, transfer.split, transfer.lane)
            if part is None:
                raise self._misfit(transfer)
            return self._typed(self._piece(tile, transfer, part.axis, part.first(lane), part.size(lane)), transfer)
        push, tile = self._take(transfer, 0)
        if same_tile(push.type, transfer.type):
            return self._typed(tile, transfer)
        part = part_of(transfer.type, push.type, transfer.split, 0)
        if part is None:
            raise self._misfit(transfer)
        _, other = self._take(transfer, 1)
        return self._typed(self._both(tile, other, transfer, part.axis, part.half), transfer)

    def _take(self, transfer: Transfer, side: int) -> tuple[Transfer, Tile]:
        queue = self.weaver.queues[transfer.fifo, side]
        self.yield_until(lambda: bool(queue))
        return queue.popleft()

    def _misfit(self, transfer: Transfer) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(f"{transfer.title} takes {transfer.type}, another tile arrives", span=transfer.op.span)

    def _typed(self, tile: Tile, transfer: Transfer) -> Tile:
        """What arrives, valid as the type says where it says so."""
        valid = tuple(index(extent) if isinstance(extent, int) else own for extent, own in zip(transfer.type.valid, tile.valid, strict=True))
        return replace(tile, valid=valid)

    def _piece(self, tile: Tile, transfer: Transfer, axis: int, first: int, size: int) -> Tile:
        """Some rows or columns of a tile."""
        body = self.body
        shape = tuple(extent for extent in transfer.type.shape if isinstance(extent, int))
        starts = [index(first) if at == axis else index(0) for at in range(tile.rank)]
        cells = tuple(index(size if at == axis else extent) for at, extent in enumerate(shape))
        made = body.load_tile(body.spill(tile), starts, shape, cells, "half")
        valid = [numbers.clamp(numbers.sub(own, index(first)), index(0), index(size)) if at == axis else own for at, own in enumerate(tile.valid)]
        return replace(made, valid=tuple(valid), zeros=False)

    def _both(self, first: Tile, second: Tile, transfer: Transfer, axis: int, half: int) -> Tile:
        """Two halves as one tile."""
        body = self.body
        shape = tuple(extent for extent in transfer.type.shape if isinstance(extent, int))
        room = memory.scratch_buffer(body.out, shape, first.dtype)
        body.order.barrier(body.out)
        for tile, start in ((first, 0), (second, half)):
            place = [index(start) if at == axis else index(0) for at in range(tile.rank)]
            size = [min(extent, shape[axis] - start) if at == axis else extent for at, extent in enumerate(tile.shape)]
            where = memory.mask(body.out, tile.shape, tuple(index(extent) for extent in size))
            body.out.line(memory.store_line(body.out, memory.tile_pointers(body.out, room, place, tile.shape), tile.text, where, tile.dtype))
        body.order.barrier(body.out)
        made = body.load_tile(room, [index(0)] * len(shape), shape, tuple(index(extent) for extent in shape), "whole")
        valid = [numbers.add(a, b) if at == axis else numbers.minimum(a, b) for at, (a, b) in enumerate(zip(first.valid, second.valid, strict=True))]
        return replace(made, valid=tuple(valid), zeros=False)

    # loops ----------------------------------------------------------------------------------------------------------------

    def loop(self, op: d.ForOp) -> Sequence[Value]:
        """A loop in which tiles cross: all strands go through it together."""
        body, block = self.body, op.body.block
        lower, upper, step = (body.index(item) for item in (op.lower, op.upper, op.step))
        inits = [body[init] for init in op.inits]
        carried = Carried(body, list(op.results), inits, [name_hint(argument) for argument in block.args[1:]])
        carried.assign(inits)
        weaver = self.weaver
        self.meet(("loop", *(item.const if item.const is not None else item.text for item in (numbers.sub(upper, lower), step))))
        if self.leads:
            weaver.turn_name = body.out.fresh("turn")
            trips = numbers.sub(upper, lower)
            count = len(range(int(lower.const or 0), int(upper.const or 0), int(step.const or 1))) if _known(lower, upper, step) else None
            head = f"for {weaver.turn_name} in range({count}):" if count is not None else loop_head(weaver.turn_name, trips, step)
            body.out.line(head)
            body.out.depth += 1
            body.order.barrier(body.out)
        turn = weaver.turn_name
        bounds = (min(lower.bounds[0], upper.bounds[0]), max(lower.bounds[1], upper.bounds[1])) if lower.bounds and upper.bounds else None
        place = numbers.add(lower, numbers.mul(Scalar(turn, INDEX, (0, abs(bounds[1] - bounds[0])) if bounds else None), step))
        body.values[block.args[0]] = Scalar(body.out.let(name_hint(block.args[0]) or "i", place.text), INDEX, bounds)
        for argument, value in zip(block.args[1:], carried.values, strict=True):
            body.values[argument] = value
        yielded = body.run(block)
        self.meet(("end", op.body.block.parent_op() is None))
        if any(weaver.queues.values()):
            help = "push and take equally often in each turn"
            raise UnsupportedFeatureError("CUDA needs as many tiles taken as pushed in each turn of a loop", span=op.span, help=help)
        carried.assign(yielded)
        self.meet(("out",))
        if self.leads:
            body.out.depth -= 1
        return carried.values


def _known(*values: Scalar) -> bool:
    return all(isinstance(value.const, int) for value in values)


def has_transfers(op: d.ForOp) -> bool:
    return any(crosses(inner) for inner in op.walk())


def push(body: Body, op: d.EffectOp) -> Sequence[Value]:
    strand, transfer = _through(body, op)
    strand.push(transfer, body.tile(op.args[0]))
    return []


def pop(body: Body, op: d.ApplyOp) -> Sequence[Value]:
    strand, transfer = _through(body, op)
    return [strand.pop(transfer)]


def _through(body: Body, op: d.RowOp) -> tuple[Strand, Transfer]:
    transfer, strand = transfer_of(op), body.strand
    assert transfer is not None
    if not isinstance(strand, Strand):
        raise body.unsupported(op, "a FIFO whose other side is not there")
    return strand, transfer
