"""Calls compiled code: packs the argument block, releases the GIL, turns a failure code into an error."""

from __future__ import annotations

import ctypes
import itertools
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilejit.dtypes import DType
from tilejit.errors import TilejitError
from tilejit.lazy import lazy
from tilejit.runtime import threads
from tilejit.runtime.arrays import ArrayView
from tilejit.runtime.artifact.blob import LoadedBlob, blob_of, check_machine
from tilejit.runtime.artifact.sections import Artifact, EntryInfo
from tilejit.runtime.call import abi, arena, interrupt
from tilejit.runtime.call.dispatch_abi import HERE
from tilejit.runtime.call.failures import PRINT, Failure, raise_failure
from tilejit.runtime.call.signature import Bound, ParamInfo
from tilejit.runtime.locks import new_lock
from tilejit.runtime.threads import Code

if TYPE_CHECKING:
    from tilejit.runtime.call.written import Start

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
_BRIEF_ENTRY = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
"""Keeps the GIL: for code that is over before another thread could take it."""
CONTEXT = ctypes.c_int64 * abi.CONTEXT_SLOTS
EMPTY_CONTEXT = struct.Struct(f"{8 * abi.CONTEXT_SLOTS}x").pack
"""A context for code that looks at none: new bytes, which only a failure is written into. It takes half as long as a ctypes array, to make and to pass."""
_WORD = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class NativeStart:
    """Code that the native dispatcher calls with an argument block."""

    kernel: int
    """Its address."""
    failed: Callable[[int, Sequence[int]], None]
    """Raises what a status other than 0 stands for."""
    keep_alive: object
    needs_arena: bool = False
    threads: int = 1
    team: int = 0
    brief: bool = False
    table: int = 0
    """Address of a launch table, for kernels that run on a GPU."""
    device: int = HERE
    """Where the tensors must be, as DLPack says it."""


class Placed:
    """Code whose parameters have places in an argument block (abi.py)."""

    params: tuple[ParamInfo, ...]
    """In the order of the code; each takes slots of the argument block."""

    @lazy
    def places(self) -> tuple[int, ...]:
        """Where each parameter starts in the argument block."""
        return _layout(self.params)[0]

    @lazy
    def slots(self) -> int:
        """Slots of the whole argument block."""
        return _layout(self.params)[1]

    def launch(self, first: object, relocate: Callable[[TilejitError], None], noted: object) -> Start | None:
        """How warm calls with a first tensor like this one start the code; None where only the full checks know."""
        return None

    def natively(self, first: object, symbol: Callable[[str], int], num_threads: int | None = None) -> NativeStart | None:
        """How the native dispatcher starts the code for such calls; `symbol` finds functions of its own. None: it does not."""
        return None


class NativeEntry(Placed):
    """One callable function of loaded code."""

    def __init__(
        self,
        code: Code,
        symbol: str,
        params: Sequence[ParamInfo],
        failures: Sequence[Failure],
        needs_arena: bool = True,
        brief: bool = False,
        threaded: bool = False,
    ) -> None:
        self._code = code  # keeps the code mapped
        self.address = code.address(symbol)
        self._function = (_BRIEF_ENTRY if brief else _ENTRY)(self.address)
        self.params = tuple(params)
        self.failures = tuple(failures)
        self.needs_arena = needs_arena
        self.brief = brief
        self.threaded = threaded and not brief
        self.prints = any(row.kind == PRINT for row in self.failures)

    @property
    def native(self) -> NativeEntry:
        """Itself: this is what native dispatch calls."""
        return self

    def natively(self, first: object, symbol: Callable[[str], int], num_threads: int | None = None) -> NativeStart | None:
        if self.prints:
            return None
        threads, team = self.lasting_team(num_threads)
        return NativeStart(self.address, self.failed, self, self.needs_arena, threads, team, self.brief)

    def run(self, arguments: Sequence[Bound], num_threads: int | None = None) -> None:
        """Run on checked arguments."""
        self.run_slots(pack(arguments, [param.dtype for param in self.params]), num_threads)

    def run_slots(self, slots: Sequence[int], num_threads: int | None = None) -> None:
        """Run on the slots of an argument block."""
        self.run_block(struct.pack(f"={len(slots)}Q", *slots), num_threads)

    def region_times(self, arguments: Sequence[Bound], functions: Sequence[str], rounds: int) -> dict[str, tuple[float, int]]:
        """Seconds and runs in one call of each function of a profiled program, on one thread."""
        table = (ctypes.c_int64 * (len(abi.Profiled) * (1 + len(functions))))()
        block = struct.pack(f"={self.slots}Q", *pack(arguments, [param.dtype for param in self.params]))
        self.run_block(block, 1)
        start = time.perf_counter()
        for _ in range(rounds):
            self.run_block(block, 1, ctypes.addressof(table))
        spent = time.perf_counter() - start
        rows = [(table[at + abi.Profiled.CYCLES], table[at + abi.Profiled.RUNS]) for at in range(0, len(table), len(abi.Profiled))]
        scale = spent / (rows[0][0] or 1) / rounds
        return {name: (cycles * scale, runs // rounds) for name, (cycles, runs) in zip(functions, rows[1:], strict=True) if runs}

    def run_block(self, block: bytes, num_threads: int | None = None, counters: int = 0) -> None:
        """Run on an argument block."""
        context = CONTEXT()
        if counters:
            context[abi.PROFILE] = counters
        if self.needs_arena:
            scratch = arena.this_thread()
            context[abi.ARENA_BASE] = scratch.base
            context[abi.ARENA_END] = scratch.end
        if self.threaded:
            count = num_threads or threads.thread_count()
            if count > 1:
                context[abi.THREADS], context[abi.TEAM] = count, threads.team(self._code)
        record = 0 if self.brief else interrupt.record()
        if record:
            context[abi.INTERRUPT] = record
        status = self._listening(block, context) if self.prints else self._function(block, context)
        if record and interrupt.stopped(record) and not (status > 0 and self.failures[status - 1].kind == "stopped"):  # a wait says what for
            interrupt.raise_stopped(record)
        if status != 0:
            self.failed(status, values_of(context))

    @property
    def bare(self) -> Callable[[bytes, bytes], int] | None:
        """The code itself, where it needs nothing but an argument block and an empty context; None: `run_block` runs it."""
        bare = self.brief and not self.needs_arena and not self.prints
        return ctypes.PYFUNCTYPE(ctypes.c_int64)(self.address) if bare else None  # no types: converting to one takes as long as the call

    def _listening(self, block: bytes, context: ctypes.Array[ctypes.c_int64]) -> int:
        """Run code that prints, and show what it said."""
        from tilejit.runtime.call.printing import PrintLog

        log = PrintLog()
        context[abi.PRINTED] = log.address
        status = self._function(block, context)
        log.show(self.failures)
        return status

    def lasting_team(self, num_threads: int | None = None) -> tuple[int, int]:
        """Number of threads and the pool for calls to come without Python."""
        return threads.lasting_team(self._code, num_threads) if self.threaded else (1, 0)

    def failed(self, status: int, values: Sequence[int]) -> None:
        """Raise what a status other than 0 stands for."""
        if status == abi.INTERRUPTED:
            interrupt.raise_stopped()
        raise_failure(self.failures[status - 1], values, self.failures)


def values_of(context: ctypes.Array[ctypes.c_int64] | bytes) -> tuple[int, ...]:
    """What a failure is about."""
    return struct.unpack_from("=4q", context, 8 * abi.FAILURE_VALUES)


def _layout(params: Sequence[ParamInfo]) -> tuple[tuple[int, ...], int]:
    """Where each parameter starts in the argument block, and the slots of the whole."""
    ends = [0, *itertools.accumulate(1 if param.shape is None else 1 + 2 * len(param.shape) for param in params)]
    return tuple(ends[:-1]), ends[-1]


class LazyCode:
    """The code of an artifact, loaded at the first use of one of its entries. It must not know its program: dropping that frees the code at once."""

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact
        self._loaded: LoadedBlob | None = None

    def entry(self, info: EntryInfo) -> NativeEntry:
        """One function, in loaded code."""
        with loading():
            if self._loaded is None:
                self._loaded = LoadedBlob(blob_of(self._artifact))
            return NativeEntry(self._loaded, info.symbol, info.signature.code_params, self._artifact.failures, info.needs_arena, info.brief, info.threaded)


class LazyEntry:
    """A function whose code is loaded at its first run."""

    def __init__(self, code: LazyCode, info: EntryInfo) -> None:
        self._code = code
        self._info = info
        self._entry: NativeEntry | None = None

    @property
    def native(self) -> NativeEntry:
        """The loaded function."""
        if self._entry is None:
            with loading():
                if self._entry is None:
                    self._entry = self._code.entry(self._info)
        return self._entry

    def run(self, arguments: Sequence[Bound], num_threads: int | None = None) -> None:
        """Run on checked arguments."""
        self.native.run(arguments, num_threads)

    def region_times(self, arguments: Sequence[Bound], functions: Sequence[str], rounds: int) -> dict[str, tuple[float, int]]:
        """Of a profiled program."""
        return self.native.region_times(arguments, functions, rounds)


def runners(artifact: Artifact) -> dict[str, LazyEntry]:
    """The entries of an artifact in machine code, if this processor can run it."""
    check_machine(artifact)
    code = LazyCode(artifact)
    return {name: LazyEntry(code, info) for name, info in artifact.entries.items()}


_lock = new_lock()


def loading() -> threading.RLock:
    """Held while code is loaded, so that it is loaded once whatever the number of threads."""
    return _lock


def pack(arguments: Sequence[Bound], dtypes: Sequence[DType]) -> list[int]:
    """The 64-bit slots of the argument block (see abi.py)."""
    slots: list[int] = []
    for argument, dtype in zip(arguments, dtypes, strict=True):
        if isinstance(argument, ArrayView):
            slots.append(argument.address)
            slots += argument.shape
            slots += [stride & _WORD for stride in argument.strides]
        else:
            slots.append(scalar_bits(argument, dtype))
    return slots


def scalar_bits(value: int | float | bool, dtype: DType) -> int:
    """The bits of a scalar argument, zero-extended."""
    if not dtype.is_float:
        return int(value) & ((1 << max(8, dtype.bits)) - 1)
    if dtype.name == "FP32":
        return struct.unpack("<I", struct.pack("<f", _to_single(value)))[0]
    import numpy as np

    return int.from_bytes(np.asarray(value, dtype.numpy).tobytes(), "little")


def _to_single(value: float) -> float:
    """`value` if a float32 can hold it, else infinity: what every other conversion to float32 does."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value
