"""Buffers that a loop makes and hands on to its next turn: where they live, so that no turn builds on top of the previous one.

Scratch memory of a turn is free again when the turn ends. A handle that is carried on must stay good, though. Buffers of constant
size, made directly in the body, rotate through a ring with one place more than there are carried handles; in every other case the
loop keeps all that its turns allocate, until it ends.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.ir import Block, SSAValue

from tilejit.backends.cpu.function import ALIGNMENT, FunctionWriter
from tilejit.backends.cpu.llvm.text import Value
from tilejit.backends.cpu.memory.storage import Array
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.alias import is_buffer
from tilejit.types.values import static_shape


@dataclass
class Ring:
    """Places for the buffers that one op makes in the turns of a loop."""

    base: Value
    size: int
    count: int
    held: list[Value] = field(default_factory=list[Value])
    """Addresses of the handles that the present turn was given."""

    def pick(self, f: FunctionWriter) -> Value:
        """The first place in which no carried handle lies."""
        e = f.e
        start = e.inst("i64", f"ptrtoint {self.base} to i64")
        chosen = e.i64(self.count - 1)
        for place in reversed(range(self.count - 1)):
            busy = Value("false", "i1")
            for pointer in self.held:
                address = e.inst("i64", f"ptrtoint {pointer} to i64")
                offset = e.sub(e.i64(e.sub(address, start)), place * self.size)
                busy = e.inst("i1", f"or {busy}, {e.icmp('ult', offset, self.size).text}")
            chosen = e.inst("i64", f"select {busy}, {chosen}, i64 {place}")
        return e.offset(self.base, e.mul(chosen, self.size), "i8")


class Escaping:
    """The buffers that leave the turns of one loop."""

    def __init__(self, f: FunctionWriter, op: d.ForOp | d.WhileOp, yielded: Sequence[SSAValue], body: Block) -> None:
        self.f = f
        roots = {root for value in yielded if is_buffer(value) for root in f.unit.aliases.roots(value) if op.is_ancestor(root.owner)}
        makers = [root.owner for root in roots]
        self.rings: list[Ring] = []
        self.keeps = not all(isinstance(maker, d.CreateOp) and maker.parent is body and static_shape(d.shaped_type(maker.result).shape) for maker in makers)
        if not self.keeps:
            places = 1 + sum(is_buffer(result) for result in op.results)
            for maker in body.ops:
                if isinstance(maker, d.CreateOp) and maker in makers:
                    self._ring(maker, places)

    def _ring(self, maker: d.CreateOp, places: int) -> None:
        type = d.shaped_type(maker.result)
        size = type.dtype.get_byte()
        for extent in static_shape(type.shape) or ():
            size *= extent
        size = max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
        ring = Ring(self.f.allocate(size * places, maker.span), size, places)
        self.f.rings[maker] = ring
        self.rings.append(ring)

    @contextmanager
    def scope(self) -> Generator[None]:
        """Frees what the turns allocate, unless some of it has to stay."""
        if self.keeps:
            yield
        else:
            with self.f.scope():
                yield

    def registers(self) -> list[Value]:
        """What has to travel besides the carried values."""
        return [self.f.top] if self.keeps else []

    def begin(self, registers: Sequence[Value]) -> None:
        """A turn, or what follows the loop, starts with `registers`."""
        if self.keeps:
            self.f.top = registers[-1]

    def watch(self, arguments: Sequence[SSAValue]) -> None:
        """The handles that a turn was given: their memory must not be made anew in it."""
        held = [storage.pointer for argument in arguments if is_buffer(argument) and isinstance(storage := self.f.values[argument], Array)]
        for ring in self.rings:
            ring.held = held
