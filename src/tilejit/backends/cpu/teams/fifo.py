"""Pushes, pops and barriers: a push copies the valid cells of a tile into a slot, a pop copies what its lane needs out of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilejit.backends import checks
from tilejit.backends.cpu.function import FunctionWriter, memory_failure
from tilejit.backends.cpu.llvm.text import Index, Value
from tilejit.backends.cpu.memory.storage import Array, row_major, sub_box
from tilejit.backends.cpu.nests.nest import copy_box
from tilejit.backends.cpu.teams import fibers
from tilejit.backends.cpu.teams.fibers_layout import BARRIER_CLASSES, Queue, Slot
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import apply_args
from tilejit.tile_ir.transfers import TO_VECTOR, Fifo, Part, Transfer, part_of, same_tile, sync_class, transfer_of
from tilejit.types.values import TileType

HEADER_BYTES = 8 * Slot.SIZE


def _bytes(type: TileType) -> int:
    return type.dtype.get_byte() * math.prod(int(extent) for extent in type.shape)


def _slot_bytes(f: FunctionWriter, fifo: Fifo) -> int:
    """Room for the largest tile that goes through a FIFO."""
    largest = max(_bytes(push.type) for push in f.unit.pushes if push.fifo == fifo)
    return HEADER_BYTES + -(-largest // 64) * 64


def _found(f: FunctionWriter, op: d.ApplyOp | d.EffectOp) -> Transfer:
    function = op
    while not isinstance(function, d.FuncOp):
        parent = function.parent_op()
        assert parent is not None
        function = parent
    transfer = transfer_of(op, function.symbol)
    assert transfer is not None
    return transfer


def _row(f: FunctionWriter, transfer: Transfer) -> int:
    """The status that says where a pop waits."""
    return f.unit.failure(checks.pop_failure(transfer)) + 1


# pushes -----------------------------------------------------------------------------------------------------------------


def write_push(f: FunctionWriter, op: d.EffectOp) -> None:
    e, transfer = f.e, _found(f, op)
    source = f.array(op.args[0])
    if transfer.fifo[0] == TO_VECTOR:
        readers = e.load("i64", e.offset(fibers.queue(f, transfer.fifo, 0), int(Queue.READERS), "i64"), 8)
        with e.loop(0, readers, name="lane") as loop:
            _put(f, transfer, source, loop.iv)
        return
    lane: Index = fibers.lane(f) if transfer.lane is None else transfer.lane
    if lane == Value("0", "i64"):
        lane = 0
    if transfer.split:
        _put(f, transfer, source, lane)
    elif isinstance(lane, int):
        if lane == 0:  # Whole tiles are lane 0's business.
            _put(f, transfer, source, 0)
    else:
        with e.when(e.icmp("eq", lane, 0)):
            _put(f, transfer, source, 0)


def _put(f: FunctionWriter, transfer: Transfer, source: Array, side: Index) -> None:
    e = f.e
    queue = fibers.queue(f, transfer.fifo, side)
    size = _slot_bytes(f, transfer.fifo)
    slot = e.inst("ptr", f"call ptr @fifo_slot({f.context}, {queue}, i64 {size})")
    address = f.e.address(slot)
    f.fail_if(e.icmp("eq", address, 0), memory_failure(transfer.op.span), [size, 0])
    site = f.unit.failure(checks.push_site(transfer))
    e.store(Value(str(site), "i64"), e.offset(slot, int(Slot.SITE), "i64"), 8)
    for axis, extent in enumerate(source.valid):
        e.store(e.i64(extent), e.offset(slot, int(Slot.VALID) + axis, "i64"), 8)
    copy_box(e, _cells(f, slot, transfer.type), source, source.valid)
    e.void(f"call void @fifo_push({f.context}, {queue}, {slot})")


def _cells(f: FunctionWriter, slot: Value, type: TileType) -> Array:
    """The tile in a slot."""
    shape = [extent for extent in type.shape if isinstance(extent, int)]
    return Array(f.e.offset(slot, HEADER_BYTES, "i8"), type.dtype, tuple(shape), row_major(f.e, shape), tuple(shape), frozenset({object()}))


# pops -------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Pop:
    """A pop being written: where the tile goes, and memory for how much of it is valid."""

    f: FunctionWriter
    transfer: Transfer
    target: Array
    valid: Value
    stem: str

    def sites(self) -> list[Transfer]:
        return [push for push in self.f.unit.pushes if push.fifo == self.transfer.fifo]

    def extent(self, slot: Value, push: Transfer, axis: int) -> Index:
        """How much of a tile in a slot is valid."""
        known = push.type.valid[axis]
        if isinstance(known, int):
            return known
        return self.f.e.load("i64", self.f.e.offset(slot, int(Slot.VALID) + axis, "i64"), 8)

    def extents(self, slot: Value, push: Transfer) -> list[Index]:
        return [self.extent(slot, push, axis) for axis in range(push.type.rank)]

    def deliver(self, extents: Sequence[Index]) -> None:
        """Say how much of the target is valid."""
        for axis, extent in enumerate(extents):
            self.f.e.store(self.f.e.i64(extent), self.f.e.offset(self.valid, axis, "i64"), 8)

    def dispatch(self, slot: Value, cases: Sequence[tuple[Transfer, Callable[[], None]]], name: str) -> None:
        """Go on by where the tile in a slot came from; a tile that does not fit is a failure."""
        e = self.f.e
        site = e.load("i64", e.offset(slot, int(Slot.SITE), "i64"), 8)
        rows: dict[int, Callable[[], None]] = {}
        for push, write in cases:  # Both lanes of a pl.split_aiv push from one place.
            rows.setdefault(self.f.unit.failure(checks.push_site(push)), write)
        table = " ".join(f"i64 {row}, label %{self.stem}.{name}{row}" for row in rows)
        e.void(f"switch {site}, label %{self.stem}.{name}.bad [ {table} ]")
        e.place(f"{self.stem}.{name}.bad")
        self.f.fail(checks.tile_failure(self.transfer), [site])
        for row, write in rows.items():
            e.place(f"{self.stem}.{name}{row}")
            write()
            e.br(f"{self.stem}.{name}.done")
        e.place(f"{self.stem}.{name}.done")


def write_pop(f: FunctionWriter, op: d.ApplyOp) -> None:
    e, transfer = f.e, _found(f, op)
    type = transfer.type
    shape = [extent for extent in type.shape if isinstance(extent, int)]
    target = f.result_array(op.results[0], shape, shape, op.span)
    pop = _Pop(f, transfer, target, e.alloca(f"[{type.rank} x i64]"), e.fresh("pop"))
    if transfer.fifo[0] == TO_VECTOR:
        _from_cube(pop)
    else:
        _from_vector(pop)
    valid = [extent if isinstance(extent, int) else e.load("i64", e.offset(pop.valid, axis, "i64"), 8) for axis, extent in enumerate(type.valid)]
    f.values[op.results[0]] = target.with_valid(valid)


def _from_cube(pop: _Pop) -> None:
    """A whole tile, or the half of the running lane."""
    f, e, transfer = pop.f, pop.f.e, pop.transfer
    lane: Index = fibers.lane(f) if transfer.lane is None else transfer.lane
    queue = fibers.queue(f, transfer.fifo, lane)
    slot = e.inst("ptr", f"call ptr @fifo_head({f.context}, {queue}, i64 {_row(f, transfer)})")
    cases: list[tuple[Transfer, Callable[[], None]]] = []
    for push in pop.sites():
        part = part_of(push.type, transfer.type, transfer.split, transfer.lane)
        if same_tile(push.type, transfer.type):
            cases.append((push, lambda push=push: _whole(pop, slot, push)))
        elif part is not None:
            cases.append((push, lambda push=push, part=part: _half(pop, slot, push, part, lane)))
    pop.dispatch(slot, cases, "from")
    e.void(f"call void @fifo_drop({queue})")


def _whole(pop: _Pop, slot: Value, push: Transfer) -> None:
    extents = pop.extents(slot, push)
    copy_box(pop.f.e, pop.target, _cells(pop.f, slot, push.type), extents)
    pop.deliver(extents)


def _half(pop: _Pop, slot: Value, push: Transfer, part: Part, lane: Index) -> None:
    e = pop.f.e
    first = e.mul(lane, part.half)
    extents = pop.extents(slot, push)
    extents[part.axis] = e.max(e.min(e.sub(extents[part.axis], first), part.half), 0)
    offsets: list[Index] = [first if axis == part.axis else 0 for axis in range(push.type.rank)]
    copy_box(e, pop.target, sub_box(e, _cells(pop.f, slot, push.type), offsets, extents), extents)
    pop.deliver(extents)


def _from_vector(pop: _Pop) -> None:
    """A whole tile of one lane, or the halves of both."""
    f, e, transfer = pop.f, pop.f.e, pop.transfer
    queues = [fibers.queue(f, transfer.fifo, side) for side in (0, 1)]
    slot = e.inst("ptr", f"call ptr @fifo_head({f.context}, {queues[0]}, i64 {_row(f, transfer)})")
    halves = [(push, part) for push in pop.sites() if (part := part_of(transfer.type, push.type, transfer.split, 1)) is not None and push.lane != 0]
    cases: list[tuple[Transfer, Callable[[], None]]] = []
    for push in pop.sites():
        part = part_of(transfer.type, push.type, transfer.split, 0)
        if same_tile(push.type, transfer.type):
            cases.append((push, lambda push=push: _lone(pop, slot, push, queues[0])))
        elif part is not None and push.lane != 1:
            cases.append((push, lambda push=push, part=part: _joined(pop, slot, push, part, queues, halves)))
    pop.dispatch(slot, cases, "from")


def _lone(pop: _Pop, slot: Value, push: Transfer, queue: Value) -> None:
    _whole(pop, slot, push)
    pop.f.e.void(f"call void @fifo_drop({queue})")


def _joined(pop: _Pop, slot: Value, push: Transfer, part: Part, queues: Sequence[Value], halves: Sequence[tuple[Transfer, Part]]) -> None:
    """The half of lane 0, then that of lane 1 once it is there."""
    f, e = pop.f, pop.f.e
    upper = pop.extents(slot, push)
    copy_box(e, pop.target, _cells(f, slot, push.type), upper)
    # Taken before the wait: another kernel that pops from this FIFO meanwhile gets the next one.
    e.void(f"call void @fifo_drop({queues[0]})")
    queue = queues[1]
    other = e.inst("ptr", f"call ptr @fifo_head({f.context}, {queue}, i64 {_row(f, pop.transfer)})")

    def second(lower: Transfer) -> None:
        extents = pop.extents(other, lower)
        extents[part.axis] = e.min(extents[part.axis], part.size(1))
        offsets: list[Index] = [part.half if axis == part.axis else 0 for axis in range(lower.type.rank)]
        target = sub_box(e, pop.target, offsets, extents)
        copy_box(e, target, _cells(f, other, lower.type), extents)
        pop.deliver([e.add(a, b) if axis == part.axis else a for axis, (a, b) in enumerate(zip(upper, extents, strict=True))])

    inner = _Pop(f, pop.transfer, pop.target, pop.valid, e.fresh("join"))
    inner.dispatch(other, [(lower, lambda lower=lower: second(lower)) for lower, _ in halves], "from")
    e.void(f"call void @fifo_drop({queue})")


# barriers ---------------------------------------------------------------------------------------------------------------


def write_syncall(f: FunctionWriter, op: d.EffectOp) -> None:
    name, used = sync_class(op), apply_args(op).get("used_cores")
    assert name is not None
    count = f.e.i64(f.index(used)) if isinstance(used, SSAValue) else Value("0", "i64")
    f.unit.fibers = True
    row = f.unit.failure(checks.sync_failure(op)) + 1
    soft = int(isinstance(used, SSAValue))
    f.e.void(f"call void @fiber_sync({f.context}, i64 {BARRIER_CLASSES.index(name)}, i64 {soft}, {count}, i64 {row})")
