"""Where ranks live: the memory that they share, and which of them are threads of this process."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.errors import RankFailedError
from tilejit.runtime.ranks import words
from tilejit.runtime.ranks.abi import Record, State, Stop

PAGE = 4096
REPORT = 16 << 10
"""Bytes in which a rank tells the others what went wrong."""
_RECORD_BYTES = 8 * int(Record.SIZE)


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


class Engine:
    """A world of ranks on one machine. `fd`: a file that all its processes map; None: all ranks are threads of this process."""

    name = "local"

    def __init__(self, world: int, here: Sequence[int], fd: int | None = None) -> None:
        self.world, self.here, self.fd = world, tuple(here), fd
        self._fixed = PAGE + world * (_RECORD_BYTES + REPORT)
        self._fixed = (self._fixed + PAGE - 1) // PAGE * PAGE
        if fd is not None and os.fstat(fd).st_size < self._fixed:
            os.ftruncate(fd, self._fixed)
        self._control = mmap.mmap(-1 if fd is None else fd, self._fixed)
        self.stop = _address(self._control)
        self._area: mmap.mmap | None = None
        self._area_bytes = 0
        self.calls = 0
        self._met = 0

    @property
    def several(self) -> bool:
        """Whether there are other processes."""
        return len(self.here) < self.world

    def record(self, rank: int) -> int:
        """The address of a rank's record."""
        return self.stop + PAGE + rank * _RECORD_BYTES

    @property
    def records(self) -> npt.NDArray[Any]:
        """All records, as they are now."""
        memory: Any = (ctypes.c_int64 * (self.world * int(Record.SIZE))).from_address(self.record(0))
        return np.frombuffer(memory, np.int64).reshape(self.world, int(Record.SIZE))

    def report(self, rank: int) -> int:
        """The address of what a rank tells the others."""
        return self.stop + PAGE + self.world * _RECORD_BYTES + rank * REPORT

    def area(self, size: int) -> int:
        """The address of `size` bytes that all ranks share; new memory is zero."""
        size = max((size + PAGE - 1) // PAGE * PAGE, PAGE)
        if self._area is None or size > self._area_bytes:
            if self.fd is None:
                self._area = mmap.mmap(-1, size)
            else:
                if os.fstat(self.fd).st_size < self._fixed + size:
                    os.ftruncate(self.fd, self._fixed + size)
                self._area = mmap.mmap(self.fd, size, offset=self._fixed)
            self._area_bytes = size
        return _address(self._area)

    # stopping -----------------------------------------------------------------------------------------------------------

    def stopped(self) -> tuple[Stop, int]:
        """Why the call ends, and whose fault it is."""
        found = words.word(self.stop, 0)
        return Stop(found & 0xFF), found >> 8

    def end(self, reason: Stop, rank: int) -> None:
        """Let all ranks give up; the first reason stays."""
        if words.word(self.stop, 0) == 0:
            words.set_word(self.stop, 0, int(reason) | rank << 8)

    # processes ----------------------------------------------------------------------------------------------------------

    def alive(self, rank: int) -> bool:
        """Whether the process of a rank is there."""
        pid = words.word(self.record(rank), Record.PID)
        return pid == 0 or os.path.exists(f"/proc/{pid}/stat")

    def gone(self) -> int | None:
        """A rank whose process ended, if there is one."""
        return next((rank for rank in range(self.world) if rank not in self.here and not self.alive(rank)), None) if self.several else None

    def meet(self, timeout: float) -> bool:
        """All processes wait for each other; False: one of them does not come."""
        if not self.several:
            return True
        self._met += 1
        for rank in self.here:
            words.set_word(self.record(rank), Record.MET, self._met)
        until = time.monotonic() + timeout if timeout else None
        looks = 0
        while any(words.word(self.record(rank), Record.MET) < self._met for rank in range(self.world)):
            looks += 1
            time.sleep(0 if looks < 100 else 2e-4)
            if looks % 64 == 0 and (gone := self.gone()) is not None:
                self.end(Stop.DEAD, gone)
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
