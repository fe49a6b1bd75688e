"""How compiled code is called: the argument block and the context block, shared by the emitter and the caller.

    i64 entry(ptr args, ptr context)

`args` is an array of 64-bit slots, parameter after parameter: a tensor takes 1 + 2·rank slots (address, extents,
strides in elements), a scalar one (the value's bits, zero-extended; floats as the bits of their own type).
The result is 0, or 1 + the row of the failure table that was hit; up to four integers about it are in the context.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

CONTEXT_SLOTS = 16
"""64-bit slots of the context block."""
ARENA_BASE = 0
"""Slot: address of the scratch memory of this call."""
ARENA_END = 1
"""Slot: first address past it."""
THREADS = 2
"""Slot: number of threads the call may use; 0: as many as torch says."""
TEAM = 3
"""Slot: address of the thread pool's state (Team below); 0: everything runs on this thread."""
FAILURE_VALUES = 4
"""First of four slots with the integers of a failure message."""
LOCKS = 8
"""Slot: address of the locks that guard atomic adds while other threads run the same kernel; 0: there are none."""
FIBER = 9
"""Slot: the running fiber (backends/cpu/teams/fibers.py), 0 where kernels do not run side by side. Code sets it; it is 0 at entry."""

TABLE = 14
"""Slot: address of the launch table (runtime/cuda/launch_abi.py) of an entry whose kernels run on a GPU."""
PROFILE = TABLE
"""Slot: address of the table that a profiled program counts in (Profiled below), or 0; such a program runs on no GPU."""

PRINTED = 15
"""Slot: address of the log of prints (runtime/call/printing.py); 0: nobody listens."""

INTERRUPT = 10
"""Slot: address of what the call sees of signals (interrupt.Record); 0: nothing stops it."""
LOOKED, DUE, TURNS = 11, 12, 13
"""Slots of the code that looks (backends/cpu/llvm/look.py): when it last did, when it asks again, turns until it looks again. They are 0 at entry."""
INTERRUPTED = -1
"""What a call returns that was stopped, where it returns that and not something else."""

TEAM_RUN, TEAM_YIELD = "tj_team_run.4", "tj_team_yield.4"
"""Functions of the pool, in the code of every kernel that shares out work; numbered, so that no kernel meets the pool of another version."""


class Profiled(enum.IntEnum):
    """A row of the table of a profiled program: the first is of the whole call, the others of its functions in order."""

    CYCLES = 0
    RUNS = 1


class Team(enum.IntEnum):
    """The state of the thread pool, in 64-bit slots; what different threads write lies in different cache lines."""

    RUN = 0
    """Address of the function that shares work out (team.py of the CPU backend)."""
    COUNT = 1
    """Address of the C function that tells torch's number of threads, or 0."""
    LOCK = 2
    """1 while a call uses the pool; another one runs on its own thread."""
    WORKERS = 3
    """How many were started."""
    INTERRUPT = 4
    """What the call that uses the pool has in its slot of that name."""
    OPENMP = 5
    """Address of `GOMP_parallel` of the library whose threads torch uses, or 0: then the pool starts threads of its own."""
    NUMBER = 6
    """Address of `omp_get_thread_num` of it."""
    OWNER = 7
    """The thread (`pthread_self`) that may use them: the library starts others for every thread that asks."""
    GENERATION = 8
    """Counts the pieces of work; workers sleep until it changes."""
    SLEEPERS = 9
    GATE = 16
    """Number of workers that take part in the present work, and whether it is closed to others."""
    MOST = 24
    LEAST = 25
    """How many trips of the last phase may be taken at once."""
    TICKET = 26
    """Counts the phases whose parts are fixed."""
    BORROW_AFTER = 27
    """The cycle from which on few threads of OpenMP are asked again, since they came late."""
    PHASES = 32
    PHASE_COUNT = 33
    """Address of the descriptions of the phases (Phase below), and their number."""
    LIMIT = 36
    """Workers that may take part."""
    SCRATCH = 37
    """Bytes of scratch memory that each needs."""
    FLOAT_MODE = 38
    """The caller's floating-point control word: whether tiny numbers count as zero is its choice."""
    FAILED_AT = 40
    """Lowest trip that failed, its code and the integers of its message."""
    FAILURE_LOCK = 41
    FAILURE_CODE = 42
    FAILURE_VALUES = 43
    YIELD = 47
    """Address of a function without arguments that lets other threads run; in front of the locks, for those who have only them."""
    LOCKS = 48
    """LOCK_COUNT locks for atomic adds, a cache line each."""
    RECORDS = 48 + 8 * 64
    """Records of workers: MAX_WORKERS of the pool's own threads, then as many of OpenMP's."""
    MEASURED = 48 + 8 * 64 + 32 * 254
    """MEASURED_COUNT pairs: a task, and the cycles that its first trip took the last time."""
    STRETCHES = 48 + 8 * 64 + 32 * 254 + 2 * 64
    """For each part of each phase its first trip that nobody took yet, its end, and the last ticket with which it was taken whole, in a line of its own."""
    DONE = 48 + 8 * 64 + 32 * 254 + 2 * 64 + 3 * 8 * 128
    """For each phase how many trips are over, in a cache line of its own."""
    SIZE = 48 + 8 * 64 + 32 * 254 + 2 * 64 + 3 * 8 * 128 + 3 * 8


class Phase(enum.IntEnum):
    """A phase of shared work: what the caller says, then what becomes of it."""

    TASK = 0
    ARGS = 1
    TRIPS = 2
    CHUNK = 3
    """Trips to take at once; 0: the first one is measured; below 0: where threads may sleep. Only a phase alone may ask for that."""
    CREW = 4
    """The most threads that have enough to do."""
    PARTS = 5
    """How many stretches the trips are cut into, one for each thread that may take part."""
    FIXED = 6
    """Not 0: the ticket with which a thread takes a whole part, its own."""
    SIZE = 8


MAX_PHASES = 3
STRETCHES_OF_PHASE = 128


LOCK_COUNT = 64
MAX_WORKERS = 127
MEASURED_COUNT = 64


class Worker(enum.IntEnum):
    """The record of one worker."""

    CONTEXT = 0
    """CONTEXT_SLOTS slots."""
    SCRATCH = 16
    """Address and size of its scratch memory."""
    SCRATCH_BYTES = 17
    TEAM = 18
    HOME = 19
    """The stretch of trips that it takes from first."""
    SIZE = 32


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
