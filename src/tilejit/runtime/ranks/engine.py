"""Where ranks live: the memory that they share, which of them are threads of this process, and which are on other machines."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.errors import RankFailedError
from tilejit.runtime.ranks import words
from tilejit.runtime.ranks.abi import Record, State, Stop
from tilejit.runtime.ranks.seats import Seat
from tilejit.runtime.ranks.wire import Wire

PAGE = 4096
REPORT = 16 << 10
"""Bytes in which a rank tells the others what went wrong."""
_RECORD_BYTES = 8 * int(Record.SIZE)
_NOTE = struct.Struct("qqq")
"""Head of a note to other machines: what it is about, where in that, and the word to set if it is about the stop."""
_CONTROL, _AREA, _STOP = range(3)
_BEAT_S, _CHANGE_S, _SILENCE_S = 1.0, 5e-3, 30.0
"""How often a process tells other machines that it is alive, and what its ranks are doing now; after so much silence it is not."""


def state_offset(rank: int) -> int:
    """Where the state of a rank stands in the memory of a job."""
    return PAGE + rank * _RECORD_BYTES + 8 * int(Record.STATE)


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _own(size: int) -> mmap.mmap:
    """Memory of this process: one that is forked off has a copy, and its calls are not seen here."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class Engine:
    """A world of ranks. `fd`: a file that the processes of this machine map; None: all ranks are threads of this one. `nodes`: the ranks of each machine."""

    name = "local"

    def __init__(self, world: int, here: Sequence[int], fd: int | None = None, nodes: Sequence[Sequence[int]] | None = None) -> None:
        self.world, self.here, self.fd = world, tuple(here), fd
        self.nodes = [tuple(node) for node in nodes or [range(world)]]
        self.near = next(node for node in self.nodes if self.here[0] in node)
        """The ranks of this machine."""
        self.place = {rank: node.index(rank) for node in self.nodes for rank in node}
        """Which of the ranks of its machine each one is."""
        self.crowded = world > (os.cpu_count() or 1)
        self._fixed = PAGE + world * (_RECORD_BYTES + REPORT)
        self._fixed = (self._fixed + PAGE - 1) // PAGE * PAGE
        if fd is not None and os.fstat(fd).st_size < self._fixed:
            os.ftruncate(fd, self._fixed)
        self._control = _own(self._fixed) if fd is None else mmap.mmap(fd, self._fixed)
        self.stop = _address(self._control)
        self._area: mmap.mmap | None = None
        self._area_bytes = 0
        self._standins: mmap.mmap | None = None
        self.seats = {rank: Seat(rank) for rank in self.here}
        self.calls = 0
        self._met = 0
        self.wire: Wire | None = None
        self._told, self._beaten = b"", 0.0

    @property
    def several(self) -> bool:
        """Whether there are other processes."""
        return len(self.here) < self.world

    @property
    def leads(self) -> bool:
        """Whether this process takes care of what its machine has once."""
        return self.near[0] in self.here

    def record(self, rank: int) -> int:
        """The address of a rank's record."""
        return self.stop + PAGE + rank * _RECORD_BYTES

    @property
    def records(self) -> npt.NDArray[Any]:
        """All records, as they are now; those of other machines as they were last told."""
        memory: Any = (ctypes.c_int64 * (self.world * int(Record.SIZE))).from_address(self.record(0))
        return np.frombuffer(memory, np.int64).reshape(self.world, int(Record.SIZE))

    def report(self, rank: int) -> int:
        """The address of what a rank tells the others."""
        return self.stop + PAGE + self.world * _RECORD_BYTES + rank * REPORT

    def area(self, size: int) -> int:
        """The address of `size` bytes that all ranks of this machine share, and that other machines reach; they hold what they held, new memory is zero."""
        size = max((size + PAGE - 1) // PAGE * PAGE, PAGE)
        if self._area is not None and size <= self._area_bytes:
            return _address(self._area)
        if self.fd is not None and os.fstat(self.fd).st_size < self._fixed + size:
            os.ftruncate(self.fd, self._fixed + size)
        made = _own(size) if self.fd is None else mmap.mmap(self.fd, size, offset=self._fixed)
        if self.fd is None and self._area is not None:
            made[: self._area_bytes] = self._area[:]  # a worker may keep its windows
        with self.wire.lock if self.wire is not None else nullcontext():  # notes that come in are written into it
            if self.wire is not None:
                self.wire.expose(_address(made), size)
            self._area, self._area_bytes = made, size
        return _address(made)

    def _area_address(self) -> int:
        assert self._area is not None
        return _address(self._area)

    def standins(self, size: int) -> int:
        """The address of `size` bytes of this process that stand for memory of other machines."""
        if self._standins is None or size > len(self._standins):
            self._standins = _own(max(size, PAGE))
        return _address(self._standins)

    # stopping -----------------------------------------------------------------------------------------------------------

    def stopped(self) -> tuple[Stop, int]:
        """Why the call ends, and whose fault it is."""
        found = words.word(self.stop, 0)
        return Stop(found & 0xFF), found >> 8

    def end(self, reason: Stop, rank: int) -> None:
        """Let all ranks give up; the first reason stays."""
        if words.word(self.stop, 0) == 0:
            word = int(reason) | rank << 8
            words.set_word(self.stop, 0, word)
            if self.wire is not None:
                self.wire.post(lambda: _NOTE.pack(_STOP, 0, word))

    # other machines -----------------------------------------------------------------------------------------------------

    def connect(self, mpi: Any) -> None:
        """Reach the other machines through MPI."""
        self.wire = Wire(mpi, self.here[0], self.nodes, self._take, self._beat)

    def publish(self, address: int, size: int) -> None:
        """Tell other machines what stands in control memory, or in the area, of this one."""
        if self.wire is None:
            return
        where, base = (_CONTROL, self.stop) if self.stop <= address < self.stop + self._fixed else (_AREA, self._area_address())
        self.wire.post(lambda: _NOTE.pack(where, address - base, 0) + ctypes.string_at(address, size))

    def publish_records(self) -> None:
        """Tell other machines what the ranks of this process are doing."""
        for rank in self.here:
            self.publish(self.record(rank), _RECORD_BYTES)

    def _take(self, note: bytes) -> None:
        where, offset, word = _NOTE.unpack_from(note)
        if where == _STOP:
            if words.word(self.stop, 0) == 0:
                words.set_word(self.stop, 0, word)
            return
        size = len(note) - _NOTE.size
        if where == _AREA and offset + size > self._area_bytes:
            return
        ctypes.memmove((self.stop if where == _CONTROL else self._area_address()) + offset, note[_NOTE.size :], size)
        if where == _CONTROL and (offset - PAGE) % _RECORD_BYTES == 0 and size == _RECORD_BYTES:
            words.set_word(self.stop + offset, Record.SEEN, time.monotonic_ns())

    def _beat(self) -> None:
        """Now and then: tell what has changed, and that this process is alive."""
        now = time.monotonic()
        if now - self._beaten < _CHANGE_S:
            return
        own = b"".join(ctypes.string_at(self.record(rank), _RECORD_BYTES) for rank in self.here)
        if own != self._told or now - self._beaten > _BEAT_S:
            self._told, self._beaten = own, now
            self.publish_records()

    def progress(self) -> None:
        """Let what comes from other machines come; whoever waits calls it."""
        if self.wire is not None:
            self.wire.progress()

    # processes ----------------------------------------------------------------------------------------------------------

    def alive(self, rank: int) -> bool:
        """Whether the process of a rank is there."""
        record = self.record(rank)
        if words.word(record, Record.STATE) == State.LEFT:
            return False
        pid = words.word(record, Record.PID)
        return pid == 0 or rank not in self.near or os.path.exists(f"/proc/{pid}/stat")

    def gone(self, patience: float) -> int | None:
        """A rank whose process ended, or that is on another machine and has told nothing for long; `patience`: seconds a wait may last, 0: for ever."""
        if not self.several:
            return None
        silence = max(patience, _SILENCE_S) if patience else 0.0
        for rank in range(self.world):
            if rank not in self.here and not self.alive(rank):
                return rank
            seen = words.word(self.record(rank), Record.SEEN)
            if rank not in self.near and silence and seen and time.monotonic_ns() - seen > silence * 1e9:
                return rank
        return None

    def meet(self, timeout: float) -> bool:
        """All processes wait for each other; False: one of them does not come."""
        if not self.several:
            return True
        self._met += 1
        for rank in self.here:
            words.set_word(self.record(rank), Record.MET, self._met)
        self.publish_records()
        until = time.monotonic() + timeout if timeout else None
        looks = 0
        while any(words.word(self.record(rank), Record.MET) < self._met for rank in range(self.world)):
            looks += 1
            self.progress()
            time.sleep(0 if looks < 100 else 2e-4)
            if looks % 64 == 0 and (gone := self.gone(timeout)) is not None:
                self.end(Stop.DEAD, gone)
            if self.stopped()[0] is Stop.DEAD:
                return False
            if until is not None and time.monotonic() > until:
                return False
        return True

    def join(self, timeout: float) -> None:
        """Say that this process is there, and wait for the others."""
        for rank in self.here:
            words.set_word(self.record(rank), Record.PID, os.getpid())
            words.set_word(self.record(rank), Record.STATE, State.FINISHED)
        if not self.meet(timeout):
            missing = [rank for rank in range(self.world) if words.word(self.record(rank), Record.MET) < self._met]
            error = RankFailedError(f"rank {missing[0] if missing else '?'} of {self.world} did not come to the job", help="start all ranks with one launcher")
            error.ranks = tuple(missing)
            raise error

    def leave(self) -> None:
        """The process ends: whoever waits for it need not."""
        for rank in self.here:
            words.set_word(self.record(rank), Record.STATE, State.LEFT)
        self.publish_records()
        if self.wire is not None:
            self.wire.close()
