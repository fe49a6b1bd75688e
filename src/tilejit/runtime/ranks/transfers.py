"""Host tensors between processes: what one rank wrote and others read, and the outputs that everybody gets at the end."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from tilejit.runtime.ranks.engine import Engine
from tilejit.runtime.ranks.plan import Plan, Step, owner_of

if TYPE_CHECKING:
    from tilejit.runtime.ranks.call import Call

_ALIGNMENT = 64


class Transfers:
    """Copies through memory that all processes share; nothing where there is one process."""

    def __init__(self, engine: Engine, plan: Plan, gather: str) -> None:
        self.engine, self.plan, self.gather = engine, plan, gather
        self.size = 0
        self._base = 0
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

    def place(self, base: int) -> None:
        """Where the shared memory is."""
        self._base = base

    def _shared(self, address: int) -> int:
        low, _, offset = next(place for place in self._places if place[0] <= address < place[1])
        return self._base + offset + address - low

    def before(self, step: Step) -> None:
        """Fetch what other processes wrote and this step touches."""
        for other in step.after if self._places else ():
            if other.rank in self.engine.here:
                continue
            for tensor in other.writes:
                for own in (*step.reads, *step.writes):
                    self._copy(max(tensor.reach[0], own.reach[0]), min(tensor.reach[1], own.reach[1]), fetch=True)

    def after(self, step: Step) -> None:
        """Publish what this step wrote and other processes need."""
        if step in self._needed and self._places:
            for tensor in step.writes:
                self._copy(*tensor.reach, fetch=False)

    def _copy(self, low: int, high: int, fetch: bool) -> None:
        if low < high:
            here, there = low, self._shared(low)
            ctypes.memmove(here if fetch else there, there if fetch else here, high - low)

    def finish(self, call: Call) -> None:
        """Give everybody, or rank 0, what the ranks wrote last."""
        if not self.engine.several:
            return
        owners = [mark for low, high, _ in self._places for mark in owner_of(self.plan, low, high)]
        for rank, low, high in owners:
            if rank in self.engine.here:
                self._copy(low, high, fetch=False)
        call.meet()
        if self.gather == "all" or (self.gather == "root" and 0 in self.engine.here):
            for rank, low, high in owners:
                if rank not in self.engine.here:
                    self._copy(low, high, fetch=True)
        call.meet()
