"""The memory of a call: where windows, the blocks of groups and stand-ins lie, and the contexts that lead kernels there."""

from __future__ import annotations

import ctypes
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.runtime.artifact.entry import CompiledEntry
from tilejit.runtime.config import RunConfig
from tilejit.runtime.ranks import between, far, group, meeting, words
from tilejit.runtime.ranks.abi import ALIGNMENT, HEADER, Comm
from tilejit.runtime.ranks.engine import Engine
from tilejit.runtime.ranks.plan import Plan, Window, WindowBuffer
from tilejit.runtime.targets import HOST

NDArray = npt.NDArray[Any]
_SPINS = 2000
"""Looks at a cell before a wait lets others run, where every rank has a processor of its own."""
_LIBRARY = ctypes.CDLL(None)


def _function(name: str) -> int:
    return ctypes.cast(getattr(_LIBRARY, name), ctypes.c_void_p).value or 0


_PAUSE, _YIELD = _function("usleep"), _function("sched_yield")


def _rounded(size: int) -> int:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


class Memory:
    """First the windows of the ranks of this machine, where they stay whatever groups a call has, then the blocks of all groups for all ranks, then what
    `more` is for."""

    def __init__(self, engine: Engine, plan: Plan, more: int) -> None:
        self.engine, self.plan = engine, plan
        self.groups = plan.groups()
        self._group_bytes = _rounded(8 * group.WORDS)
        self._rank_bytes = self._group_bytes * len(self.groups)
        self._inner: list[int] = []
        at = 0
        for buffer in plan.buffers:
            self._inner.append(at + HEADER)
            at += HEADER + _rounded(buffer.size)
        self.stride = _rounded(at)
        self._blocks = self.stride * max(len(node) for node in engine.nodes)
        self.more = self._blocks + _rounded(self._rank_bytes * engine.world)
        """Where the rest begins, on every machine."""
        self.base = engine.area(self.more + more)
        self._standins = engine.standins(self.stride * engine.world) if engine.wire is not None else 0
        self._contexts: dict[tuple[int, int], NDArray] = {}
        self._tables: dict[tuple[int, int], NDArray] = {}

    # places ---------------------------------------------------------------------------------------------------------------

    def block(self, group: int, rank: int) -> int:
        """The address of the words that a rank has in a group; for ranks of other machines, of what they told."""
        return self.base + self._blocks + rank * self._rank_bytes + group * self._group_bytes

    def shown(self, buffer: WindowBuffer, rank: int) -> int:
        """Where a rank's copy of a buffer lies in the memory that its process shows to other machines."""
        return self.engine.place[rank] * self.stride + self._inner[buffer.number]

    def copy_of(self, buffer: WindowBuffer, rank: int) -> int:
        """The address of a rank's copy of a buffer, or of its stand-in."""
        if rank in self.engine.near:
            return self.base + self.shown(buffer, rank)
        return self._standins + rank * self.stride + self._inner[buffer.number]

    def window(self, window: Window, rank: int) -> NDArray:
        """A window as an array, on a rank of this process."""
        dtype = window.dtype.numpy
        count = int(np.prod(window.shape, dtype=np.int64))
        memory: Any = (ctypes.c_char * max(count * dtype.itemsize, 1)).from_address(self.copy_of(window.buffer, rank))
        return np.frombuffer(memory, dtype, count).reshape(window.shape)

    def context(self, buffer: WindowBuffer, rank: int) -> int:
        """The address of the context of a buffer on a rank."""
        return int(self._contexts[buffer.number, rank].__array_interface__["data"][0])

    # what is another matter on a GPU ------------------------------------------------------------------------------------------

    def cell(self, rank: int, address: int) -> int:
        """The cell of a signal in a rank's copy."""
        return words.cell(address)

    def argument(self, array: NDArray) -> object:
        """An array as a kernel takes it."""
        return array

    def take(self, rank: int, into: NDArray, made: object) -> None:
        """Copy a result that a kernel made."""
        into[...] = np.asarray(made)

    def access(self, rank: int) -> group.Access:
        """How a rank reads and writes arrays."""
        return group.HERE

    def run_config(self, rank: int, threads: int) -> RunConfig:
        """How the kernels of a rank run."""
        return RunConfig(num_threads=threads)

    def running(self, rank: int) -> AbstractContextManager[None]:
        """Around everything that a rank does."""
        return nullcontext()

    def settle(self, rank: int, entry: CompiledEntry) -> None:
        """Everything that an entry launched on a rank is done."""

    def clear(self, rank: int, address: int, size: int) -> None:
        """Set bytes of a rank's windows to 0."""
        ctypes.memset(address, 0, size)

    def row(self, size: int) -> NDArray:
        """Words for a context, where kernels see them."""
        return np.zeros(size, np.int64)

    def write_header(self, buffer: WindowBuffer, rank: int, context: int) -> None:
        """What stands in front of a window: its context, and a lock that nobody has."""
        words.set_word(self.copy_of(buffer, rank) - HEADER, 0, context)
        words.set_word(self.copy_of(buffer, rank) - HEADER, 1, 0)

    # the start and the end of a call ----------------------------------------------------------------------------------------

    def prepare(self, keep: bool) -> None:
        """Zero what the ranks of this process have, and write the contexts; `keep`: windows hold what they held."""
        engine = self.engine
        for rank in engine.here if not engine.leads else (*engine.here, *(q for q in range(engine.world) if q not in engine.near)):
            ctypes.memset(self.block(0, rank), 0, self._rank_bytes)
        for rank in engine.here:
            if not keep and self.plan.buffers:
                self.clear(rank, self.copy_of(self.plan.buffers[0], rank) - HEADER, self.stride)
            for number, ranks in enumerate(self.groups):
                if rank in ranks and (number, rank) not in self._tables:
                    self._tables[number, rank] = np.array([number, *(self.block(number, q) for q in ranks)], np.int64)
            for buffer in self.plan.buffers:
                if rank in buffer.ranks:
                    if (buffer.number, rank) not in self._contexts:
                        self._write_context(buffer, rank)
                    self._show_context(buffer, rank)
        if engine.wire is not None:
            for ranks in self.groups:
                between.communicators(engine, ranks)
            engine.wire.settle()

    def _write_context(self, buffer: WindowBuffer, rank: int) -> None:
        engine, ranks = self.engine, tuple(sorted(buffer.ranks))
        number = self.groups.index(ranks)
        row = self.row(int(Comm.BASES) + 2 * len(ranks))
        apart = [q not in engine.near for q in ranks]
        fields = {
            Comm.RANK: ranks.index(rank), Comm.COUNT: len(ranks), Comm.STOP: engine.stop, Comm.RECORD: engine.record(rank),
            Comm.PAUSE: _PAUSE, Comm.YIELD: _YIELD, Comm.MEET: meeting.MEET, Comm.BUFFER: buffer.number,
            Comm.GROUP: int(self._tables[number, rank].__array_interface__["data"][0]), Comm.SPIN: 20 if engine.crowded else _SPINS,
            Comm.FAR: far.FAR if any(apart) else 0,
        }  # fmt: skip
        for slot, value in fields.items():
            row[slot] = value
        row[Comm.BASES :] = [*(self.copy_of(buffer, q) for q in ranks), *apart]
        self._contexts[buffer.number, rank] = row

    def _show_context(self, buffer: WindowBuffer, rank: int) -> None:
        """Let kernels and collectives find the context of a buffer in this call."""
        engine, ranks, address = self.engine, tuple(sorted(buffer.ranks)), self.context(buffer, rank)
        self.write_header(buffer, rank, address)
        group.register(self.groups.index(ranks), engine.record(rank), address, buffer.size)
        if any(q not in engine.near for q in ranks):
            far.spread[address] = far.Spread(engine, ranks, tuple(self.shown(buffer, q) for q in ranks))

    def forget(self) -> None:
        """The end of a call."""
        comms = [int(row.__array_interface__["data"][0]) for row in self._contexts.values()]
        group.forget(comms)
        for comm in comms:
            far.spread.pop(comm, None)


def memory_of(engine: Engine, plan: Plan, more: int) -> Memory:
    """The memory of a call; a plan that is run again on threads of the same ranks finds everything where it was."""
    kept = plan.memory
    if isinstance(kept, Memory) and kept.engine is engine and engine.fd is None and engine.area(kept.more + more) == kept.base:
        return kept
    if plan.device != HOST:
        from tilejit.runtime.cuda.ranks import DeviceMemory

        return DeviceMemory(engine, plan, more)
    made = plan.memory = Memory(engine, plan, more)
    return made
