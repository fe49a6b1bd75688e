"""Kernels side by side in the reference: tasks that hand control to each other, the FIFOs between them, and barriers.

A task is a thread, but only one runs at any time, until it waits; the next one that can go on is chosen as the CPU's fibers choose it
(backends/cpu/teams/fibers_text.py), so both backends run the same schedule.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tilejit.backends import checks
from tilejit.ops.evaluate import ArrayValue, poison
from tilejit.ops.sync import MIXED_CORES
from tilejit.runtime.call.failures import Failure, raise_failure
from tilejit.tile_ir.cross_core import CrossCore, Member, Run
from tilejit.tile_ir.transfers import BACKLOG, TO_VECTOR, Fifo, Transfer, part_of, same_tile

if TYPE_CHECKING:
    from tilejit.backends.reference.shadow import Turn

Ready = Callable[[], int]
"""How much is still missing of what a task waits for; 0 or less: it can go on."""


class _Abandoned(BaseException):
    """Ends a task whose run has failed elsewhere."""


@dataclass(eq=False)
class Task:
    """One kernel under way; the root has no thread of its own."""

    thread: threading.Thread | None = None
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    missing: Ready = lambda: 0
    place: Failure | None = None
    """What to say when it waits for ever."""


class Scheduler:
    """The ring of tasks, the outermost one first."""

    def __init__(self) -> None:
        self.tasks: list[Task] = [Task()]
        self.running = self.tasks[0]
        self.error: BaseException | None = None
        self.idle = 0
        """Looks at cells of other ranks, one after the other, that found nothing."""

    def run(self, bodies: Sequence[Callable[[], object]]) -> None:
        """Run all bodies side by side, each until it waits, and wait for all."""
        left = len(bodies)

        def task(body: Callable[[], object]) -> Task:
            made = Task()
            made.thread = threading.Thread(target=main, args=(made, body), daemon=True)
            return made

        def main(own: Task, body: Callable[[], object]) -> None:
            nonlocal left
            own.turn.acquire()
            try:
                if self.error is None:
                    body()
            except _Abandoned:
                pass
            except BaseException as error:
                self.error = self.error or error
            left -= 1
            position = self.tasks.index(own)
            self.tasks.remove(own)
            self._go_on(position)

        made = [task(body) for body in bodies]
        self.tasks += made
        for item in made:
            assert item.thread is not None
            item.thread.start()
        self.wait(lambda: left, None)
        for item in made:
            assert item.thread is not None
            item.thread.join()

    def wait(self, missing: Ready, place: Failure | None) -> None:
        """Let others run until nothing is missing."""
        own = self.running
        if missing() > 0:
            own.missing, own.place = missing, place
            self._go_on(self.tasks.index(own) + 1)
            own.turn.acquire()
            own.missing = lambda: 0
        if self.error is not None:
            if own is self.tasks[0]:
                self._abandon()
                raise self.error
            raise _Abandoned

    def pause(self) -> None:
        """Let others run first, if any can."""
        own = self.running
        self._go_on(self.tasks.index(own) + 1)
        own.turn.acquire()
        if self.error is not None:
            raise _Abandoned

    def turns(self, found: bool) -> bool:
        """Say whether a look at a cell of other ranks found something, and let others run if not: whether all have looked in vain since one last did."""
        self.idle = 0 if found else self.idle + 1
        vain = self.idle >= len(self.tasks)
        if vain:
            self.idle = 0
        if not found:
            self.pause()
        return vain

    def _go_on(self, position: int) -> None:
        """Hand control to the first task from `position` on, around the ring, that can go on; the root has to deal with a failure."""
        if self.error is not None:
            self._resume(self.tasks[0])
            return
        for task in self.tasks[position:] + self.tasks[:position]:
            if task.missing() <= 0:
                self._resume(task)
                return
        self.error = _deadlock(self.tasks)
        self._resume(self.tasks[0])

    def _resume(self, task: Task) -> None:
        self.running = task
        task.turn.release()

    def _abandon(self) -> None:
        """End the tasks that still wait, one after the other."""
        while len(self.tasks) > 1:
            task = self.tasks[-1]
            assert task.thread is not None
            self.running = task
            task.turn.release()
            task.thread.join()
            self.running = self.tasks[0]
            self.tasks[0].turn.acquire()


def _deadlock(tasks: Sequence[Task]) -> BaseException:
    waiting = [(task.place, task.missing()) for task in tasks if task.place is not None]
    first, missing = waiting[0]
    other = next((place for place, _ in waiting if place != first), None)
    table = () if other is None else (other,)
    try:
        raise_failure(first, (0 if table else -1, missing), table)
    except Exception as error:
        return error


# FIFOs and barriers -----------------------------------------------------------------------------------------------------


@dataclass
class Barriers:
    """Who has arrived at the barriers of a launch, and how many are expected."""

    expected: Counter[str]
    mixed: int
    """How many tasks of one block meet a mixed barrier."""
    arrived: Counter[tuple[str, bool]] = field(default_factory=Counter[tuple[str, bool]])


@dataclass(frozen=True)
class Surroundings:
    """What a task shares with others: the scheduler, the FIFOs of its block, the barriers of its launch; and its lane."""

    scheduler: Scheduler
    fifos: Fifos | None = None
    barriers: Barriers | None = None
    lane: int = 0

    def push(self, transfer: Transfer, value: ArrayValue) -> None:
        """Send a tile."""
        assert self.fifos is not None
        self.fifos.push(transfer, value, self._lane(transfer), self.scheduler)

    def pop(self, transfer: Transfer) -> ArrayValue:
        """Receive a tile; its valid region is what the type says, or what arrives where that leaves it open."""
        assert self.fifos is not None
        value = self.fifos.pop(transfer, self._lane(transfer), self.scheduler)
        valid = tuple(extent if isinstance(extent, int) else own for extent, own in zip(transfer.type.valid, value.valid, strict=True))
        return ArrayValue(value.data, valid)

    def _lane(self, transfer: Transfer) -> int:
        return self.lane if transfer.lane is None else transfer.lane

    def sync(self, op: Any, name: str, used: int | None) -> None:
        """Wait until all that take part are here."""
        if self.barriers is None:
            return
        barriers, key = self.barriers, (name, used is not None)
        if used is not None and name == "mix":
            used = used * barriers.mixed // MIXED_CORES
        count = max(1, barriers.expected[name] if used is None else used)
        target = (barriers.arrived[key] // count + 1) * count
        barriers.arrived[key] += 1
        self.scheduler.wait(lambda: target - barriers.arrived[key], checks.sync_failure(op))


class Fifos:
    """The FIFOs of one block of a run."""

    def __init__(self, readers: dict[Fifo, int]) -> None:
        self._readers = readers
        self._queues: dict[tuple[Fifo, int], deque[tuple[Transfer, ArrayValue]]] = defaultdict(deque)

    def push(self, push: Transfer, value: ArrayValue, lane: int, scheduler: Scheduler) -> None:
        """Send a copy: to all lanes that read, or from one."""
        copy = poison(value.data.shape, push.type.dtype)
        box = tuple(slice(0, size) for size in value.valid)
        copy[box] = value.data[box]
        sent = push, ArrayValue(copy, value.valid)
        if push.fifo[0] == TO_VECTOR:
            for side in range(self._readers.get(push.fifo, 1)):
                self._append(push.fifo, side, sent, scheduler)
        elif push.split or lane == 0:  # Whole tiles are lane 0's business.
            self._append(push.fifo, lane if push.split else 0, sent, scheduler)

    def _append(self, fifo: Fifo, side: int, sent: tuple[Transfer, ArrayValue], scheduler: Scheduler) -> None:
        queue = self._queues[fifo, side]
        queue.append(sent)
        if len(queue) >= BACKLOG:
            scheduler.pause()

    def pop(self, pop: Transfer, lane: int, scheduler: Scheduler) -> ArrayValue:
        """The next tile, or the half of it that the lane needs, or both halves joined."""
        if pop.fifo[0] == TO_VECTOR:
            push, value = self._next(pop, lane, scheduler)
            if same_tile(push.type, pop.type):
                return value
            part = part_of(push.type, pop.type, pop.split, pop.lane)
            if part is None:
                _refuse(pop, push)
            first, size = part.first(lane), part.size(lane)
            cells = np.take(value.data, range(first, first + size), axis=part.axis)
            valid = [min(max(extent - first, 0), size) if axis == part.axis else extent for axis, extent in enumerate(value.valid)]
            return _placed(pop, [(0, ArrayValue(cells, tuple(valid)))], part.axis)
        push, value = self._next(pop, 0, scheduler)
        if same_tile(push.type, pop.type):
            return value
        part = part_of(pop.type, push.type, pop.split, 0)
        if part is None:
            _refuse(pop, push)
        other, lower = self._next(pop, 1, scheduler)
        if part_of(pop.type, other.type, pop.split, 1) is None:
            _refuse(pop, other)
        valid = tuple(min(extent, part.size(1)) if axis == part.axis else extent for axis, extent in enumerate(lower.valid))
        return _placed(pop, [(0, value), (part.half, ArrayValue(lower.data, valid))], part.axis)

    def _next(self, pop: Transfer, side: int, scheduler: Scheduler) -> tuple[Transfer, ArrayValue]:
        queue = self._queues[pop.fifo, side]
        scheduler.wait(lambda: 1 - len(queue), checks.pop_failure(pop))
        return queue.popleft()


def _refuse(pop: Transfer, push: Transfer) -> NoReturn:
    raise_failure(checks.tile_failure(pop), (0,), (checks.push_site(push),))


def _placed(pop: Transfer, pieces: Sequence[tuple[int, ArrayValue]], axis: int) -> ArrayValue:
    """A tile made of the valid cells of pieces that start at the given places along an axis."""
    shape = tuple(extent for extent in pop.type.shape if isinstance(extent, int))
    data = poison(shape, pop.type.dtype)
    valid = list(pieces[0][1].valid)
    valid[axis] = sum(piece.valid[axis] for _, piece in pieces)
    for first, piece in pieces:
        box = tuple(slice(first if at == axis else 0, (first if at == axis else 0) + size) for at, size in enumerate(piece.valid))
        data[box] = piece.data[tuple(slice(0, size) for size in piece.valid)]
    return ArrayValue(data, tuple(valid))


# runs -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """Which block of how many is running."""

    index: int = 0
    count: int = 1
    around: Surroundings | None = None
    """What it shares with kernels that run beside it."""
    turn: Turn | None = None
    """Which iteration of which parallel loops it is; the sanitizer wants to know."""


Start = Callable[[Member, BlockPlace], Sequence[Any]]
"""Runs one block and lane of a member of a run; what it gives."""


def side_by_side(place: BlockPlace, run: Run, counts: Sequence[int | None], start: Start, cross: CrossCore) -> list[Sequence[Any]]:
    """Run the members of a run, each in all its blocks and lanes; what the last of each gave. Blocks that never meet go one after the other."""
    if not run.syncs and counts[0] is not None and all(count == counts[0] for count in counts):
        results: list[Sequence[Any]] = [[] for _ in counts]
        for block in range(counts[0]):
            results = _together(place, run, [range(block, block + 1) for _ in counts], counts, start, cross)
        return results
    return _together(place, run, [range(1 if count is None else count) for count in counts], counts, start, cross)


def _together(place: BlockPlace, run: Run, blocks: Sequence[range], counts: Sequence[int | None], start: Start, cross: CrossCore) -> list[Sequence[Any]]:
    scheduler = place.around.scheduler if place.around is not None else Scheduler()
    barriers = place.around.barriers if place.around is not None else None
    if run.syncs:
        expected = Counter[str]()
        for member, count in zip(run.members, counts, strict=True):
            expected += Counter({name: each * member.lanes * (1 if count is None else count) for name, each in cross.met(member).items()})
        barriers = Barriers(expected, sum(cross.met(member)["mix"] * member.lanes for member in run.members))
    fifos = defaultdict[int, Fifos](lambda: Fifos({fifo: run.readers(fifo) for fifo in run.fifos}))
    results: list[Sequence[Any]] = [[] for _ in run.members]
    bodies: list[Callable[[], None]] = []
    for number, (member, indices, count) in enumerate(zip(run.members, blocks, counts, strict=True)):
        for index in indices:
            for lane in range(member.lanes):
                around = Surroundings(scheduler, fifos[index], barriers, lane)
                own = replace(place, around=around) if count is None else replace(place, index=index, count=count, around=around)

                def body(number: int = number, member: Member = member, own: BlockPlace = own) -> None:
                    results[number] = start(member, own)

                bodies.append(body)
    scheduler.run(bodies)
    return results
