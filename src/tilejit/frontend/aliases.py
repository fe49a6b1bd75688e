"""Which names may mean the same memory, which memory is written, and which results of operators need memory, as other names show what is written into them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from operator import itemgetter
from typing import NamedTuple

from xdsl.ir import Block, Operation, SSAValue

from tilejit.errors import Span, TilejitError, UnsupportedFeatureError
from tilejit.ops import facts
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import viewed
from tilejit.tile_ir.build import Builder
from tilejit.types.values import BufferType, TileType

Place = tuple[object, ...]
"""An expression of the source: its function and where it stands."""
PRINTED = ContextVar("PRINTED", default=False)
"""Whether what is read is the text of a program: names stand for its values there, and a write into one leaves the others as they were."""
_WINDOWS = (d.WindowOp, d.ViewOp, d.PeerOp)


class NeedsMemory(UnsupportedFeatureError):
    """The function is to be read again, with the results of these expressions in memory; where they are already, `refusal` is what to say."""

    def __init__(self, refusal: TilejitError, places: frozenset[Place], span: Span | None) -> None:
        super().__init__(refusal.message, span=refusal.span or span, help=refusal.hint)
        self.refusal = refusal
        self.places = places


class _Event(NamedTuple):
    """A read or a write, in the order of the text."""

    value: SSAValue
    block: Block
    writes: bool
    span: Span | None = None


class Aliases:
    """Handles that may be the same memory (union-find), results of operators among them, and what is done with them."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._parent: dict[SSAValue, SSAValue] = {}
        self._written: set[SSAValue] = set()
        self._events: list[_Event] = []
        self._made: dict[SSAValue, int] = {}
        """Results of operators, with the number of events before them."""
        self._places: dict[SSAValue, Place] = {}
        """The expressions that made them."""
        self._turned: set[SSAValue] = set()
        """Transpositions in the spelling of arrays."""
        self._copies: list[tuple[SSAValue, Place]] = []
        """Expressions that give them as a copy, `+t`, of which nothing is seen as long as nobody writes."""

    def root(self, value: SSAValue) -> SSAValue:
        path: list[SSAValue] = []
        while (parent := self._parent.get(value)) is not None or isinstance(value.owner, _WINDOWS):
            path.append(value)
            if parent is not None:
                value = parent
            else:
                assert isinstance(value.owner, _WINDOWS)
                value = value.owner.buffer
        for item in path:
            self._parent[item] = value
        return value

    def unite(self, a: SSAValue, b: SSAValue) -> None:
        """From now on `a` and `b` may be one tensor."""
        a, b = self.root(a), self.root(b)
        if _is_buffer(a) and not _is_buffer(b):
            a, b = b, a
        if a is not b:
            self._parent[a] = b
            if a in self._written:
                self._written.add(b)

    def write(self, buffer: SSAValue) -> None:
        self._written.add(self.root(buffer))
        self._events.append(_Event(buffer, self._builder.block, True, self._builder.span))

    def written(self, buffer: SSAValue) -> bool:
        return self.root(buffer) in self._written

    # results of operators -------------------------------------------------------------------------------------------------

    def made(self, value: SSAValue, place: Place | None = None) -> bool:
        """Take note of a result, and tell whether the expression at this place made it; a part of another, as a subscript gives it, is that one."""
        if value in self._made or not is_result(value):
            return False
        self._made[value] = len(self._events)
        whole = value
        while (source := self._part_of(whole)) is not None:
            self.unite(whole, source)
            whole = source
        if place is not None and (whole is value or whole not in self._made) and not _is_buffer(whole) and _is_complete(value):
            self._places[value] = place
        return value in self._places

    def turned(self, value: object) -> None:
        """Take note of what `x.T` or a method gave: who writes as with an array expects that the tensor shows what is written into it."""
        while isinstance(value, SSAValue) and isinstance(owner := value.owner, d.ApplyOp) and facts(owner.op).swaps:
            self._turned.add(value)
            value = viewed(owner)

    def _part_of(self, value: SSAValue) -> SSAValue | None:
        """What a slice, a reshape or `x.T` is taken from. `pl.transpose(x, 0, 1)`, and a part with a valid region of its own, are results of their own."""
        owner = value.owner
        if not isinstance(owner, d.ApplyOp) or not _is_complete(value) or (facts(owner.op).swaps and value not in self._turned):
            return None
        return viewed(owner)

    def read(self, value: object, block: Block | None = None) -> None:
        """A name is read, or handed on where paths meet."""
        if isinstance(value, SSAValue):
            if value in self._made:
                self._events.append(_Event(value, block or self._builder.block, False))
        elif isinstance(value, tuple | list | dict):
            for item in value.values() if isinstance(value, dict) else value:
                self.read(item, block)

    def changed(self, old: SSAValue, new: SSAValue) -> None:
        """A write into a result: `new` is what it is from now on."""
        if is_result(old) and d.type_of(old) == d.type_of(new):
            self.made(old)
            self._events.append(_Event(old, self._builder.block, True, self._builder.span))
            self._made[new] = len(self._events)
            self.unite(new, old)

    def met(self, result: SSAValue, candidate: SSAValue, block: Block | None = None) -> None:
        """Paths meet: the result is this candidate on one of them, which hands it on at the end of `block`."""
        if is_result(result):
            self._made.setdefault(result, len(self._events))
            if block is not None:
                self.read(candidate, block)
        if is_result(result) or _is_buffer(result):
            self.unite(result, candidate)

    def copied(self, buffer: SSAValue, value: object) -> None:
        """A tensor and a value that stand for one another: as long as neither is written, nobody can tell."""
        if isinstance(value, SSAValue) and is_result(value):
            self.made(value)
            self.unite(value, buffer)

    def copied_at(self, value: SSAValue, place: Place) -> None:
        self._copies.append((value, place))

    def needs_memory(self, value: SSAValue, refusal: TilejitError) -> TilejitError:
        """The error for a result that must be in memory here: `refusal` where it cannot be put there."""
        own = self.root(value)
        found = frozenset(place for result, place in (*self._places.items(), *self._copies) if self.root(result) is own)
        return NeedsMemory(refusal, found, self._builder.span) if found else refusal

    def check(self, function: Operation) -> None:
        """Once a function is read: no name shows a result as it was before a write, and no write into a result was meant for a tensor."""
        if not self._made or PRINTED.get():
            return
        events = [(time, event) for time, event in enumerate(self._events) if function.is_ancestor(event.block)]
        writes: dict[SSAValue, list[tuple[int, _Event]]] = {}
        for time, event in events:
            if event.writes:
                writes.setdefault(self.root(event.value), []).append((time, event))
        buffers = {self.root(value) for value in (*self._parent, *self._parent.values()) if _is_buffer(value)} if writes else set()
        for own in buffers & writes.keys():
            for _, write in writes[own]:
                if is_result(write.value):
                    raise self.needs_memory(write.value, UnsupportedFeatureError(COPY, span=write.span, help=_DIRECTLY))
        for now, read in events:
            since = writes.get(self.root(read.value), []) if not read.writes else []
            seen = _first_before(read, now, since[bisect_left(since, self._made.get(read.value, 0), key=itemgetter(0)) :])
            if seen is not None:
                raise self.needs_memory(read.value, UnsupportedFeatureError(SHOWN, span=seen.span, help=_ANEW))


_ANEW = "take the name anew after this, or let it be a copy: `t = +x.T`"
_DIRECTLY = "write into the tensor itself, as slices with a step, transpositions and flips are no windows; or make the copy yours: `t = +x.T`"
COPY = "this writes into a copy of a tensor, or of a part of it, which the tensor would not see"
SHOWN = "what this changes is also shown by a name that has no window of it, and that is read later on"


def is_result(value: SSAValue) -> bool:
    """Whether a value is what an operator on tensors gives: it has no memory, unless it is put there."""
    type = d.type_of(value)
    return isinstance(type, TileType) and type.level == "tensor"


def _is_buffer(value: SSAValue) -> bool:
    return isinstance(d.type_of(value), BufferType)


def _is_complete(value: SSAValue) -> bool:
    type = d.type_of(value)
    return isinstance(type, TileType) and type.fully_valid


def _first_before(read: _Event, now: int, writes: Sequence[tuple[int, _Event]]) -> _Event | None:
    """The first of the writes from which the run may come to a read without making the value that is read anew: behind it, or in the next round of a loop."""
    around = list(_around(read.block)) if writes else []
    rounds = [op for op, _ in around if isinstance(op, d.ForOp | d.WhileOp) and not op.is_ancestor(read.value.owner)]
    for time, write in writes:
        if time > now and not rounds:
            return None
        above = dict(_around(write.block))
        if any(loop in above for loop in rounds):
            return write
        if time < now and not any(isinstance(op, d.IfOp) and above.get(op, block) is not block for op, block in around):
            return write
    return None


def _around(block: Block | None) -> Iterator[tuple[Operation, Block]]:
    """The ops that a block stands in, each with the block of it."""
    while block is not None and (op := block.parent_op()) is not None:
        yield op, block
        block = op.parent
