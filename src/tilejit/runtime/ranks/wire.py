"""What goes between machines: MPI windows, notes that keep the control memory of all machines alike, and the thread that keeps MPI moving.

One thread at a time is inside MPI, so MPI.THREAD_SERIALIZED is enough. A target that computes moves nothing by itself on many transports: hence the thread.
"""

from __future__ import annotations

import functools
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from tilejit.errors import PlatformError, RankFailedError
from tilejit.runtime.locks import new_lock

NDArray = npt.NDArray[Any]
P = ParamSpec("P")
T = TypeVar("T")
_TAG = 7
_PIECE = 1 << 30
"""Bytes that one transfer moves at most: counts of MPI are 32 bits wide."""
_IDLE_S, _BUSY_S = 2e-3, 2e-4
"""Pauses of the thread between calls of programs, and in them."""


def _serial(function: Callable[P, T]) -> Callable[P, T]:
    """One thread at a time; what MPI refuses is a failed rank."""

    @functools.wraps(function)
    def done(*args: P.args, **named: P.kwargs) -> T:
        wire: Any = args[0]
        with wire.lock:
            try:
                return function(*args, **named)
            except wire.mpi.Exception as error:
                raise RankFailedError(f"MPI failed: {error}", help="the output of mpirun says more") from error

    return done


class Wire:
    """The other machines of a job, as one of its processes reaches them."""

    def __init__(self, mpi: Any, rank: int, nodes: Sequence[Sequence[int]], take: Callable[[bytes], None], beat: Callable[[], None]) -> None:
        self.mpi, self.rank = mpi, rank
        self.lock = new_lock()
        self._notes = mpi.COMM_WORLD.Dup()
        self._windows = mpi.COMM_WORLD.Dup()
        self.posts = [node[0] for node in nodes if rank not in node]
        """The process of every other machine that takes its notes."""
        self._take, self._beat = take, beat
        self._under_way: list[tuple[Any, bytes]] = []
        self._window: Any = None
        self._groups: dict[tuple[int, ...], Any] = {}
        self._closing = threading.Event()
        self.busy = False
        self._thread = threading.Thread(target=self._run, name="tilejit between machines", daemon=True)
        self._thread.start()

    # notes ----------------------------------------------------------------------------------------------------------------

    @_serial
    def post(self, write: Callable[[], bytes]) -> None:
        """Send a note to every other machine. Notes of one process arrive in their order, and each is written when it is sent: what two threads tell about
        one thing never goes back in time."""
        note = write()
        for post in self.posts:
            self._under_way.append((self._notes.Isend([note, self.mpi.BYTE], post, _TAG), note))

    @_serial
    def progress(self) -> bool:
        """Take the notes that have come; whether there were any."""
        status, found = self.mpi.Status(), False
        while self._notes.Iprobe(self.mpi.ANY_SOURCE, _TAG, status):
            note = bytearray(status.Get_count(self.mpi.BYTE))
            self._notes.Recv([note, self.mpi.BYTE], status.Get_source(), _TAG)
            self._take(bytes(note))
            found = True
        self._under_way = [item for item in self._under_way if not item[0].Test()]
        return found

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                if self.progress():
                    continue
                self._beat()
            except RankFailedError:
                return
            self._closing.wait(_BUSY_S if self.busy else _IDLE_S)

    def close(self) -> None:
        """No more notes are taken."""
        until = time.monotonic() + 1.0
        while self._under_way and time.monotonic() < until:
            self.progress()
        self._closing.set()
        self._thread.join()

    # windows --------------------------------------------------------------------------------------------------------------

    @_serial
    def expose(self, address: int, size: int) -> None:
        """Let the others reach memory of this process; all processes do it together."""
        mpi = self.mpi
        if self._window is not None:
            self._window.Unlock_all()
            self._window.Free()
        self._window = mpi.Win.Create(self._memory(address, size), 1, comm=self._windows)
        self._window.Set_errhandler(mpi.ERRORS_RETURN)
        if self._window.Get_attr(mpi.WIN_MODEL) != mpi.WIN_UNIFIED:
            raise PlatformError("this MPI keeps two copies of a window (MPI_WIN_SEPARATE)", help="use one whose windows are MPI_WIN_UNIFIED")
        self._window.Lock_all(mpi.MODE_NOCHECK)

    def _memory(self, address: int, size: int) -> Any:
        return self.mpi.buffer.fromaddress(address, size)

    @_serial
    def move(self, put: bool, rank: int, offset: int, address: int, extents: Sequence[int], strides: Sequence[int], width: int) -> None:
        """Copy a box of `width`-byte elements to or from a rank; it has the same strides on both sides."""
        act = self._window.Put if put else self._window.Get
        runs, steps, size = _runs(extents, strides, width)
        if not runs:
            for start in range(0, size, _PIECE):
                count = min(_PIECE, size - start)
                act([self._memory(address + start, count), count, self.mpi.BYTE], rank, [offset + start, count, self.mpi.BYTE])
        else:
            kind = self.mpi.BYTE.Create_contiguous(size)
            for count, step in zip(reversed(runs), reversed(steps), strict=True):
                inner, kind = kind, kind.Create_hvector(count, 1, step)
                inner.Free()
            kind.Commit()
            reach = sum((count - 1) * step for count, step in zip(runs, steps, strict=True)) + size
            act([self._memory(address, reach), 1, kind], rank, [offset, 1, kind])
            kind.Free()
        self._window.Flush(rank)

    @_serial
    def change(self, rank: int, offset: int, value: int, add: bool) -> None:
        """Add to a 32-bit cell of a rank, or set it, after everything before."""
        given, kind = np.array([value], np.int32), self.mpi.INT32_T
        self._window.Sync()
        self._window.Accumulate([given, kind], rank, [offset, 1, kind], self.mpi.SUM if add else self.mpi.REPLACE)
        self._window.Flush(rank)

    @_serial
    def look(self, offset: int) -> int:
        """A 32-bit cell of this rank as the others see it."""
        found, nothing = np.zeros(1, np.int32), np.zeros(1, np.int32)
        self._window.Fetch_and_op([nothing, self.mpi.INT32_T], [found, self.mpi.INT32_T], self.rank, offset, self.mpi.NO_OP)
        self._window.Flush(self.rank)
        self._window.Sync()
        return int(found[0])

    @_serial
    def swap(self, rank: int, offset: int, old: int, new: int) -> bool:
        """Set a 64-bit word of a rank from `old` to `new`; False: it was something else."""
        before, expected, wanted = np.zeros(1, np.int64), np.array([old], np.int64), np.array([new], np.int64)
        kind = self.mpi.INT64_T
        self._window.Compare_and_swap([wanted, kind], [expected, kind], [before, kind], rank, offset)
        self._window.Flush(rank)
        self._window.Sync()
        return int(before[0]) == old

    @_serial
    def settle(self) -> None:
        """What this process wrote is there for the others, and the reverse."""
        if self._window is not None:
            self._window.Flush_all()
            self._window.Sync()

    # collectives ------------------------------------------------------------------------------------------------------------

    @_serial
    def group(self, ranks: Sequence[int]) -> Any:
        """The communicator of some ranks; they make it together, when they first need it."""
        key = tuple(ranks)
        if self.rank in key and key not in self._groups:
            everybody = self._windows.Get_group()
            some = everybody.Incl(list(key))
            self._groups[key] = self._windows.Create_group(some, zlib.crc32(repr(key).encode()) & 0x7FFF)
            some.Free()
            everybody.Free()
        return self._groups.get(key)

    def forget_groups(self) -> None:
        """After a failure some may have been left in the middle of a collective: they are not used again."""
        self._groups = {}

    def done(self, start: Callable[[], Any], stopped: Callable[[], bool]) -> bool:
        """Start a non-blocking collective of MPI and see it through; False: the call ends."""
        started, looks = self._started(start), 0
        while not self._is_done(started):
            if stopped():
                return False
            looks += 1
            time.sleep(0 if looks < 1000 else 1e-4)
        return True

    @_serial
    def _started(self, start: Callable[[], Any]) -> Any:
        return start()

    @_serial
    def _is_done(self, request: Any) -> bool:
        return bool(request.Test())


def _runs(extents: Sequence[int], strides: Sequence[int], width: int) -> tuple[list[int], list[int], int]:
    """Counts and distances in bytes of the pieces of a box that lie in one piece, and how long each is; no counts: it is one piece."""
    counts, steps, size = [], [], width
    for extent, stride in zip(reversed(extents), reversed(strides), strict=True):
        step = stride * width
        if extent == 1:
            continue
        if step == size and not counts:
            size *= extent
        else:
            counts.insert(0, extent)
            steps.insert(0, step)
    return counts, steps, size
