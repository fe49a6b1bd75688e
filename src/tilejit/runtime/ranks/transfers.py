"""Host tensors between processes: what one rank wrote and others read, and the outputs that everybody gets at the end."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from tilejit.runtime.ranks.engine import Engine
from tilejit.runtime.ranks.memory import Memory
from tilejit.runtime.ranks.plan import Plan, Step, owner_of

if TYPE_CHECKING:
    from tilejit.runtime.ranks.call import Call

_ALIGNMENT = 64


class Transfers:
    """Copies through memory that the processes of a machine share, and from there to other machines; nothing where there is one process."""

    def __init__(self, engine: Engine, plan: Plan, gather: str) -> None:
        self.engine, self.plan, self.gather = engine, plan, gather
        self.size = 0
        self._places: list[tuple[int, int, int]] = []
        """First byte and past the last of each tensor that is written, and where it lies in the shared memory."""
        self._needed: set[Step] = set()
        if not engine.several:
            return
        written = [tensor for step in plan.steps for tensor in step.writes]
        for tensor in plan.tensors:
            low, high = tensor.reach
            if any(part.reach[0] < high and low < part.reach[1] for part in written):
                self._places.append((low, high, self.size))
                self.size += (high - low + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        self._needed = {other for step in plan.steps for other in step.after}

    def place(self, memory: Memory) -> None:
        """Where the shared memory is, here and in what other machines see."""
        self._base, self._shown = memory.base + memory.more, memory.more

    def _offset(self, address: int) -> int:
        low, _, offset = next(place for place in self._places if place[0] <= address < place[1])
        return offset + address - low

    def before(self, step: Step) -> None:
        """Fetch what other processes wrote and this step touches."""
        for other in step.after if self._places else ():
            for tensor in other.writes if other.rank not in self.engine.here else ():
                for own in (*step.reads, *step.writes):
                    self._fetch(other.rank, max(tensor.reach[0], own.reach[0]), min(tensor.reach[1], own.reach[1]))

    def after(self, step: Step) -> None:
        """Publish what this step wrote and other processes need."""
        if step in self._needed and self._places:
            for tensor in step.writes:
                if tensor.home is None:
                    self._show(*tensor.reach)

    def _show(self, low: int, high: int) -> None:
        if low < high:
            ctypes.memmove(self._base + self._offset(low), low, high - low)

    def _fetch(self, rank: int, low: int, high: int, into: int | None = None) -> None:
        """Bring what a rank shows; `into`: not to its place, but to another address."""
        if low >= high:
            return
        here = low if into is None else into
        if rank in self.engine.near:
            ctypes.memmove(here, self._base + self._offset(low), high - low)
        else:
            assert self.engine.wire is not None
            self.engine.wire.move(False, rank, self._shown + self._offset(low), here, [high - low], [1], 1)

    def finish(self, call: Call) -> None:
        """Give everybody, or rank 0, what the ranks wrote last; it comes to a machine once, and is shared there."""
        engine = self.engine
        if not engine.several:
            return
        owners = [mark for low, high, _ in self._places for mark in owner_of(self.plan, low, high)]
        for rank, low, high in owners:
            if rank in engine.here:
                self._show(low, high)
        call.meet()
        wanted = self.gather == "all" or (self.gather == "root" and 0 in engine.near)
        if engine.wire is not None:
            for rank, low, high in owners if wanted and engine.leads else ():
                if rank not in engine.near:
                    self._fetch(rank, low, high, into=self._base + self._offset(low))
            call.meet()
        if self.gather == "all" or (self.gather == "root" and 0 in engine.here):
            for rank, low, high in owners:
                if rank not in engine.here:
                    self._fetch(engine.near[0], low, high)
        call.meet()
