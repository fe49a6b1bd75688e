"""Runs a plan: windows are laid out and zeroed, ranks run their steps on threads of their own, and somebody watches that they get on."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.errors import RankStopped
from tilejit.runtime.config import RunConfig
from tilejit.runtime.ranks import meeting, reports, transfers, words
from tilejit.runtime.ranks.abi import ALIGNMENT, HEADER, Comm, Record, State, Stop
from tilejit.runtime.ranks.config import DistributedConfig
from tilejit.runtime.ranks.engine import Engine
from tilejit.runtime.ranks.plan import Plan, Step, Window, WindowBuffer

NDArray = npt.NDArray[Any]
_SPINS = 2000
"""Looks at a cell before a wait lets others run, where every rank has a processor of its own."""
_LIBRARY = ctypes.CDLL(None)


def _function(name: str) -> int:
    return ctypes.cast(getattr(_LIBRARY, name), ctypes.c_void_p).value or 0


_PAUSE, _YIELD = _function("usleep"), _function("sched_yield")


def _rounded(size: int) -> int:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


class Call:
    """One run of a plan."""

    def __init__(self, engine: Engine, plan: Plan, config: DistributedConfig, keep: bool = False) -> None:
        self.engine, self.plan, self.config = engine, plan, config
        self.groups = plan.groups()
        self._group_bytes = _rounded(8 * meeting.WORDS)
        self._offsets: list[int] = []
        at = self._group_bytes * len(self.groups)
        for buffer in plan.buffers:
            self._offsets.append(at + HEADER)
            at += HEADER + _rounded(buffer.size)
        self.stride = _rounded(at)
        self.moves = transfers.Transfers(engine, plan, config.gather)
        self.base = engine.area(self.stride * engine.world + self.moves.size)
        self.moves.place(self.base + self.stride * engine.world)
        self._keep = keep
        """Windows keep what they hold from an earlier call."""
        self._contexts: dict[tuple[int, int], NDArray] = {}
        self.errors: dict[int, BaseException] = {}

    # memory ---------------------------------------------------------------------------------------------------------------

    def block(self, rank: int) -> int:
        """The address of what a rank has."""
        return self.base + rank * self.stride

    def copy_of(self, buffer: WindowBuffer, rank: int) -> int:
        """The address of a rank's copy of a buffer."""
        return self.block(rank) + self._offsets[buffer.number]

    def window(self, window: Window, rank: int) -> NDArray:
        """A window as an array, on a rank of this process."""
        dtype = window.dtype.numpy
        count = int(np.prod(window.shape, dtype=np.int64))
        memory: Any = (ctypes.c_char * max(count * dtype.itemsize, 1)).from_address(self.copy_of(window.buffer, rank))
        return np.frombuffer(memory, dtype, count).reshape(window.shape)

    def context(self, buffer: WindowBuffer, rank: int) -> int:
        """The address of the context of a buffer on a rank."""
        return int(self._contexts[buffer.number, rank].__array_interface__["data"][0])

    def _prepare(self) -> None:
        """Zero what the ranks of this process have, and write the contexts."""
        tables: dict[tuple[int, int], NDArray] = {}
        for rank in self.engine.here:
            size = self._group_bytes * len(self.groups) if self._keep else self.stride
            ctypes.memset(self.block(rank), 0, size)
            for number, ranks in enumerate(self.groups):
                if rank in ranks:
                    blocks = [self.block(q) + number * self._group_bytes for q in ranks]
                    tables[number, rank] = np.array([number, *blocks], np.int64)
            for buffer in self.plan.buffers:
                if rank in buffer.ranks:
                    self._write_context(buffer, rank, tables)
        self._tables = tables

    def _write_context(self, buffer: WindowBuffer, rank: int, tables: dict[tuple[int, int], NDArray]) -> None:
        ranks = tuple(sorted(buffer.ranks))
        group = self.groups.index(ranks)
        row = np.zeros(int(Comm.BASES) + len(ranks), np.int64)
        crowded = self.engine.world > (os.cpu_count() or 1)
        fields = {
            Comm.RANK: ranks.index(rank), Comm.COUNT: len(ranks), Comm.STOP: self.engine.stop, Comm.RECORD: self.engine.record(rank),
            Comm.PAUSE: _PAUSE, Comm.YIELD: _YIELD, Comm.MEET: meeting.MEET, Comm.BUFFER: buffer.number,
            Comm.GROUP: int(tables[group, rank].__array_interface__["data"][0]), Comm.SPIN: 20 if crowded else _SPINS,
        }  # fmt: skip
        for slot, value in fields.items():
            row[slot] = value
        for q, member in enumerate(ranks):
            row[Comm.BASES + q] = self.copy_of(buffer, member)
        self._contexts[buffer.number, rank] = row
        address = self.context(buffer, rank)
        words.set_word(self.copy_of(buffer, rank) - HEADER, 0, address)
        words.set_word(self.copy_of(buffer, rank) - HEADER, 1, 0)
        meeting.register(group, self.engine.record(rank), address, buffer.size)

    def run_config(self, config: RunConfig | None) -> RunConfig:
        """How kernels run: on the threads of their rank."""
        count = self.config.threads_per_rank or max(1, len(os.sched_getaffinity(0)) // len(self.engine.here))
        return RunConfig(num_threads=count)

    # running --------------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Everything; raises what went wrong."""
        engine = self.engine
        engine.calls += 1
        if not engine.several:
            words.set_word(engine.stop, 0, 0)
        self._prepare()
        for rank in engine.here:
            record = engine.record(rank)
            words.set_word(record, Record.DONE, 0)
            words.set_word(record, Record.STATE, State.RUNNING)
            words.set_word(record, Record.CALL, engine.calls)
        reports.clear(engine)
        try:
            reports.present(self)
            self.meet()
            reports.compare(self)
            self._run_ranks()
            self.moves.finish(self)
        except BaseException:
            reports.settle(engine)
            raise
        finally:
            meeting.forget([self.context(buffer, rank) for buffer in self.plan.buffers for rank in engine.here if rank in buffer.ranks])

    def meet(self) -> None:
        """All processes of the call come here."""
        if not self.engine.meet(self.config.timeout):
            raise reports.missing(self)

    def _run_ranks(self) -> None:
        engine = self.engine
        threads = [threading.Thread(target=self._run_rank, args=(rank,), name=f"tilejit rank {rank}", daemon=True) for rank in engine.here]
        for thread in threads:
            thread.start()
        try:
            self._watch(threads)
        except BaseException:
            engine.end(Stop.ERROR, engine.here[0])
            for thread in threads:
                thread.join()
            raise
        reason, rank = engine.stopped()
        if reason is not Stop.NOTHING or self.errors:
            raise reports.failure(self, reason, rank)

    def _run_rank(self, rank: int) -> None:
        engine, record = self.engine, self.engine.record(rank)
        step: Step | None = None
        try:
            for step in self.plan.steps:
                if step.rank != rank:
                    continue
                if not self._in_order(step, record):
                    raise RankStopped(f"waits to start {step.name}", span=step.span)
                self.moves.before(step)
                step.run(self, rank)
                self.moves.after(step)
                words.set_word(record, Record.DONE, step.number + 1)
        except BaseException as error:
            self.errors[rank] = reports.told(error, step)
            reports.tell(engine, rank, self.errors[rank])
            if not isinstance(error, RankStopped):
                engine.end(Stop.ERROR, rank)
        finally:
            words.set_word(record, Record.TURN, words.word(record, Record.TURN) + 1)
            words.set_word(record, Record.STATE, State.FINISHED)

    def _in_order(self, step: Step, record: int) -> bool:
        """Wait for the steps of other ranks that come first; False: the call ends."""
        for other in step.after:
            theirs = self.engine.record(other.rank)
            there = lambda theirs=theirs, other=other: words.word(theirs, Record.DONE) > other.number  # noqa: E731
            if not there() and not words.blocked(record, self.engine.stop, State.ORDERED, {Record.NEEDS: other.rank, Record.STEPS: other.number}, there):
                return False
        return words.word(self.engine.stop, 0) == 0

    # watching -------------------------------------------------------------------------------------------------------------

    def _watch(self, threads: Sequence[threading.Thread]) -> None:
        """Until all ranks of this process are through: find deadlocks at once, silence after the timeout, ranks that died."""
        pause, changed, seen = 5e-4, time.monotonic(), None
        while True:
            for thread in threads:
                thread.join(pause / len(threads))
            if not any(thread.is_alive() for thread in threads):
                return
            pause = min(pause * 1.5, 0.02)
            if words.word(self.engine.stop, 0):
                continue
            if (stuck := self.stuck()) is not None:
                self.engine.end(*self._verdict(stuck))
                continue
            if (gone := self.engine.gone()) is not None:
                self.engine.end(Stop.DEAD, gone)
                continue
            now = self._progress()
            if now != seen:
                changed, seen = time.monotonic(), now
            elif self.config.timeout and time.monotonic() - changed > self.config.timeout and (waiting := self._only_waiting()):
                self.engine.end(Stop.TIMEOUT, waiting[0])

    def _progress(self) -> bytes:
        """What changes when a rank gets on: its record and its signal cells."""
        return self.engine.records[:, : int(Record.PHASE) + 1].tobytes()

    def _only_waiting(self) -> list[int]:
        """The ranks that wait, if none computes: that is no hanging."""
        records = self.engine.records.copy()
        return [] if np.any(records[:, Record.STATE] == State.RUNNING) else _waiting(records)

    def stuck(self) -> NDArray | None:
        """The records if no rank can go on: all are finished or wait for what does not hold, at two looks between which none has moved.

        They are a copy: once another process has said so too, its ranks move."""
        first = self.engine.records.copy()
        if not self._all_blocked(first) or np.all(first[:, Record.STATE] == State.FINISHED):
            return None
        again = self.engine.records.copy()
        same = [int(Record.STATE), int(Record.TURN), int(Record.DONE), int(Record.CALL)]
        return again if np.array_equal(first[:, same], again[:, same]) and self._all_blocked(again) else None

    def _all_blocked(self, records: NDArray) -> bool:
        return all(row[Record.CALL] == self.engine.calls and self._is_blocked(rank, row, records) for rank, row in enumerate(records))

    def _is_blocked(self, rank: int, row: NDArray, records: NDArray) -> bool:
        state = row[Record.STATE]
        if state == State.FINISHED:
            return True
        if state == State.WAITING:
            value = words.cell(self.block(rank) + self._offsets[int(row[Record.BUFFER])] + int(row[Record.CELL]))
            return not (value >= row[Record.EXPECTED] if row[Record.CMP] else value == row[Record.EXPECTED])
        if state == State.MEETING:
            group, phase = int(row[Record.GROUP]), int(row[Record.PHASE])
            return any(words.word(self.block(q) + group * self._group_bytes, 0) < phase for q in self.groups[group])
        if state == State.ORDERED:
            return bool(records[int(row[Record.NEEDS]), Record.DONE] <= row[Record.STEPS])
        return False

    def _verdict(self, records: NDArray) -> tuple[Stop, int]:
        """A deadlock; a rank that finished while others meet is a collective that it left out."""
        for rank, row in enumerate(records):
            if row[Record.STATE] == State.MEETING and any(records[q, Record.STATE] == State.FINISHED for q in self.groups[int(row[Record.GROUP])]):
                return Stop.MISMATCH, rank
        return Stop.DEADLOCK, _waiting(records)[0]


def _waiting(records: NDArray) -> list[int]:
    return [rank for rank, row in enumerate(records) if row[Record.STATE] in (State.WAITING, State.MEETING, State.ORDERED)]
