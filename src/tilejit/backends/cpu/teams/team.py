"""Work for several threads: the blocks of a launch, the trips of a parallel loop and launches side by side become tasks for the pool.

A task is a function of a range of trips, so that one thread runs them all with one call:

    internal i64 @task(ptr args, ptr context, ptr arena, i64 begin, i64 end)

What the pass `share` marks is shared out if the call may use several threads and the trips are worth it; `share` carries an estimate of
one trip in nanoseconds, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from tilejit.backends.cpu.function import FunctionWriter
from tilejit.backends.cpu.llvm.text import Emitter, Index, Value
from tilejit.backends.cpu.llvm.vector import binary
from tilejit.backends.cpu.memory.storage import Array, Storage
from tilejit.passes import cost
from tilejit.runtime.call import abi
from tilejit.runtime.call.abi import Phase, Team
from tilejit.tile_ir import dialect as d

_EVERYBODY = (1 << 63) - 1

_PARAMS = tuple(Value(f"%{name}", "i64" if name in ("begin", "end") else "ptr") for name in ("args", "context", "arena", "begin", "end"))


Estimate = Index | None
"""Nanoseconds of one trip; None: only the run can tell."""


def estimate_of(op: d.TileOp) -> Estimate:
    """What the pass found, for an op that may be shared out."""
    found = op.static("share")
    return found if isinstance(found, int) else None


def is_worth_it(count: Index, estimate: Estimate) -> bool:
    """Whether trips may be shared out, as far as it is known now."""
    if isinstance(count, int) and count < 2:
        return False
    return not (isinstance(estimate, int) and isinstance(count, int) and estimate * count < cost.WORTH_NS)


def run_task(
    f: FunctionWriter, task: str, args: Value, count: Index, estimate: Estimate, alone: Callable[[], None] | None = None, unless: Sequence[Value] = (),
    *, in_long_pieces: bool = False,
) -> None:  # fmt: skip
    """Run the trips [0, count) of a task, on several threads if the call may use them; fails as its lowest failing trip does.

    `alone` writes what one thread does instead of all trips; it is done too where one of `unless` holds. `in_long_pieces`: a thread takes as many at once as
    leave something for the others, because they cost less together."""
    total: Index = cost.WORTH_NS if estimate is None else f.e.mul(count, estimate)

    def run_alone() -> None:
        if alone is None:
            _run_alone(f, task, args, count, estimate)
        else:
            alone()

    trips = Trips(task, args, count, estimate, in_long_pieces)
    run_together(f, [(count, 2), (total, cost.WORTH_NS)], lambda team: run_phases(f, team, [trips]), run_alone, unless)


def run_together(
    f: FunctionWriter, least: Sequence[tuple[Index, int]], together: Callable[[Value], None], alone: Callable[[], None], unless: Sequence[Value] = ()
) -> None:
    """`together(team)` where the call may use several threads and every number is at least what it must be, and none of `unless` holds; else `alone`."""
    e = f.e
    f.unit.threaded = True
    team = e.load("ptr", e.offset(f.context, abi.TEAM, "i64"), 8)
    shared = e.inst("i1", f"icmp ne ptr {team.text}, null")
    for found, needed in least:
        if not isinstance(found, int):
            shared = e.inst("i1", f"and {shared}, {e.icmp('sge', found, needed).text}")
    for condition in unless:
        shared = e.inst("i1", f"and {shared}, {binary(e, 'xor', condition, Value('true', 'i1')).text}")
    stem = e.fresh("team")
    e.cbr(shared, f"{stem}.share", f"{stem}.alone")
    for label, write in (("share", lambda: together(team)), ("alone", alone)):
        e.place(f"{stem}.{label}")
        with f.scope():
            write()
        e.br(f"{stem}.done")
    e.place(f"{stem}.done")


@dataclass(frozen=True, slots=True)
class Trips:
    """The trips [0, count) of a task, and what is known of them."""

    task: str
    args: Value
    count: Index
    estimate: Estimate
    in_long_pieces: bool = False


def run_phases(f: FunctionWriter, team: Value, phases: Sequence[Trips]) -> None:
    """Run trips on several threads, one phase when the one before is over, and wait for all of them."""
    e = f.e
    assert len(phases) <= abi.MAX_PHASES
    lines = e.alloca(f"[{len(phases) * Phase.SIZE} x i64]", 64)
    for number, phase in enumerate(phases):
        total: Index = cost.WORTH_NS if phase.estimate is None else e.mul(phase.count, phase.estimate)
        known = {
            Phase.TASK: Value(f"@{phase.task}", "ptr"), Phase.ARGS: phase.args, Phase.TRIPS: e.i64(phase.count),
            Phase.CHUNK: _chunk(e, total, 1 if phase.in_long_pieces else phase.estimate, certain=len(phases) > 1), Phase.CREW: _crew(e, total, phase.estimate),
        }  # fmt: skip
        for slot, value in known.items():
            e.store(value, e.offset(lines, number * Phase.SIZE + slot, "i64"), 8)
    run = e.load("ptr", e.offset(team, int(Team.RUN), "i64"), 8)
    values = [team, f.context, f.top, lines, e.i64(len(phases))]
    leave_on_failure(e, e.inst("i64", f"call i64 {run.text}({', '.join(map(str, values))})"))


def _run_alone(f: FunctionWriter, task: str, args: Value, count: Index, estimate: Estimate) -> None:
    """All trips on this thread: at once where they look themselves, else in slices, with a look between."""
    e = f.e
    if estimate is None:
        leave_on_failure(e, e.inst("i64", f"call i64 @{task}({args}, {f.context}, {f.top}, i64 0, {e.i64(count)})"))
        return
    most = cost.SLICE_NS
    size: Index = max(1, most // max(estimate, 1)) if isinstance(estimate, int) else e.max(e.inst("i64", f"sdiv i64 {most}, {estimate.text}"), 1)
    if isinstance(size, int) and isinstance(count, int) and count <= size:
        leave_on_failure(e, e.inst("i64", f"call i64 @{task}({args}, {f.context}, {f.top}, i64 0, {e.i64(count)})"))
        return
    with e.loop(0, count, size, name="slices") as loop:
        e.look()
        end = e.i64(e.min(e.add(loop.iv, size), count))
        leave_on_failure(e, e.inst("i64", f"call i64 @{task}({args}, {f.context}, {f.top}, {loop.iv}, {end})"))


def _chunk(e: Emitter, total: Index, estimate: Estimate, *, certain: bool) -> Value:
    """Trips to take at once; 0: measure; below 0: measure where threads sleep."""
    if estimate is None:
        return Value("0", "i64")
    if isinstance(estimate, int):
        chunk: Index = max(1, cost.CHUNK_NS // max(estimate, 1))
    else:
        chunk = e.max(e.inst("i64", f"sdiv i64 {cost.CHUNK_NS}, {e.i64(e.max(estimate, 1)).text}"), 1)
    if certain or (isinstance(total, int) and total >= cost.CERTAIN_NS):
        return e.i64(chunk)
    guess = e.i64(e.sub(0, chunk))
    return guess if isinstance(total, int) else e.inst("i64", f"select {e.icmp('sge', total, cost.CERTAIN_NS)}, {e.i64(chunk)}, {guess}")


def _crew(e: Emitter, total: Index, estimate: Estimate) -> Value:
    """The most threads that have enough to do."""
    if estimate is None:
        return Value(str(_EVERYBODY), "i64")
    return e.i64(max(2, total // cost.CREW_NS) if isinstance(total, int) else e.max(e.inst("i64", f"sdiv {total}, {cost.CREW_NS}"), 2))


def leave_on_failure(e: Emitter, code: Value) -> None:
    """End the function with the code of what it called, unless that is 0."""
    stem = e.fresh("called")
    e.cbr(e.icmp("ne", code, 0), f"{stem}.bad", f"{stem}.good")
    e.place(f"{stem}.bad")
    e.void(f"ret {code}")
    e.place(f"{stem}.good")


def blocks_task(f: FunctionWriter, kernel: str, count_slot: int) -> str:
    """The task that runs blocks of a kernel; the number of all blocks is in a slot after the arguments."""
    name = f"blocks.{kernel}"
    if name not in f.unit.module.functions:
        args, context, arena, begin, end = _PARAMS
        e = Emitter(f.unit.module, name, "i64", _PARAMS, linkage="internal")
        blocks = e.load("i64", e.offset(args, count_slot, "i64"), 8)
        with e.loop(begin, end, name="blocks") as loop:
            e.look()
            leave_on_failure(e, e.inst("i64", f"call i64 @{kernel}({args}, {context}, {arena}, {loop.iv}, {blocks})"))
        e.void("ret i64 0")
        e.finish()
    return name


# code that moves into a task --------------------------------------------------------------------------------------------


class Captures:
    """The run-time values of a function that code moved into a task uses: stored in a block here, loaded from it there."""

    def __init__(self, inner: Emitter) -> None:
        self.inner = inner
        self.outer: list[Value] = []
        self._known: dict[Value, Value] = {}

    def value(self, value: Value) -> Value:
        if not value.text.startswith("%"):
            return value
        if value not in self._known:
            place = self.inner.offset(_PARAMS[0], len(self.outer), "i64")
            self._known[value] = self.inner.load(value.type, place, 8)
            self.outer.append(value)
        return self._known[value]

    def index(self, index: Index) -> Index:
        return self.value(index) if isinstance(index, Value) else index

    def array(self, array: Array) -> Array:
        shape, strides, valid = (tuple(self.index(item) for item in items) for items in (array.shape, array.strides, array.valid))
        # Every trip sees it: none may write its own results there.
        return replace(array, pointer=self.value(array.pointer), shape=shape, strides=strides, valid=valid, owned=False)

    def storage(self, storage: Storage) -> Storage:
        return self.value(storage) if isinstance(storage, Value) else self.array(storage)

    def block(self, e: Emitter) -> Value:
        """The values as they are now, where the task finds them."""
        block = e.alloca(f"[{max(1, len(self.outer))} x i64]", 16)
        for position, value in enumerate(self.outer):
            e.store(value, e.offset(block, position, "i64"), 8)
        return block


RangeBody = Callable[[FunctionWriter, Captures, Value, Value], None]
"""(writer of the task, what it captured, begin, end) → code for these trips."""


def write_range_task(f: FunctionWriter, ops: Iterable[Operation], body: RangeBody) -> tuple[str, Value]:
    """A task that writes code for `ops` in terms of values of `f`: its name and its arguments."""
    name = f"{f.e.name}.{f.e.fresh('task')}"
    e = Emitter(f.unit.module, name, "i64", _PARAMS, linkage="internal")
    captures = Captures(e)
    inner = FunctionWriter(f.unit, e, f.rules)
    inner.done = f.done
    inner.block_index, inner.block_count = captures.value(f.block_index), captures.value(f.block_count)
    inner.symbols = {symbol: captures.index(extent) for symbol, extent in f.symbols.items()}
    for value in _used(ops):
        found = f.values.get(value)
        if found is not None:
            inner.values[value] = captures.storage(found)
    body(inner, captures, _PARAMS[3], _PARAMS[4])
    e.void("ret i64 0")
    e.finish()
    return name, captures.block(f.e)


def write_task(f: FunctionWriter, ops: Iterable[Operation], body: Callable[[FunctionWriter, Value], None]) -> tuple[str, Value]:
    """A task made of `body(writer, trip)`."""

    def trips(inner: FunctionWriter, captures: Captures, begin: Value, end: Value) -> None:
        with inner.scope(), inner.e.loop(begin, end, name="trips") as loop:
            inner.e.look()
            body(inner, loop.iv)

    return write_range_task(f, ops, trips)


def _used(ops: Iterable[Operation]) -> Sequence[SSAValue]:
    """Operands of `ops` and of everything inside them."""
    return list(dict.fromkeys(operand for op in ops for inner in op.walk() for operand in inner.operands))
