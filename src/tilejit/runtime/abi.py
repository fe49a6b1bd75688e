"""How compiled code is called: the argument block and the context block, shared by the emitter and the caller.

    i64 entry(ptr args, ptr context)

`args` is an array of 64-bit slots, parameter after parameter: a tensor takes 1 + 2·rank slots (address, extents,
strides in elements), a scalar one (the value's bits, zero-extended; floats as the bits of their own type).
The result is 0, or 1 + the row of the failure table that was hit; up to four integers about it are in the context.
"""

from __future__ import annotations

from dataclasses import dataclass

CONTEXT_SLOTS = 16
"""64-bit slots of the context block."""
ARENA_BASE = 0
"""Slot: address of the scratch memory of this call."""
ARENA_END = 1
"""Slot: first address past it."""
THREADS = 2
"""Slot: number of threads the call may use."""
FAILURE_VALUES = 4
"""First of four slots with the integers of a failure message."""


@dataclass(frozen=True, slots=True)
class TensorSlots:
    """Where a tensor parameter lies in the argument block."""

    first: int
    rank: int

    @property
    def address(self) -> int:
        return self.first

    def extent(self, axis: int) -> int:
        return self.first + 1 + axis

    def stride(self, axis: int) -> int:
        return self.first + 1 + self.rank + axis

    @property
    def end(self) -> int:
        return self.first + 1 + 2 * self.rank
