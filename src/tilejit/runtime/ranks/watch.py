"""Somebody watches that the ranks of a call get on: deadlocks on one machine are found at once, silence between machines after the timeout."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilejit.runtime.ranks import words
from tilejit.runtime.ranks.abi import Record, State, Stop
from tilejit.runtime.ranks.engine import Engine
from tilejit.runtime.ranks.memory import Memory

NDArray = npt.NDArray[Any]
_ROUNDS = 3
"""Rounds in which blocks looked in vain, of which one began after the earlier look: a round is counted when the block that ended it has its turn again."""


class Watch:
    """The watch over one call."""

    def __init__(self, engine: Engine, memory: Memory, timeout: float) -> None:
        self.engine, self.memory, self.timeout = engine, memory, timeout
        self._before: NDArray | None = None
        """The records at an earlier look at which all were blocked and nobody has moved since."""

    def until(self, ends: Sequence[threading.Event]) -> None:
        """Until all ranks of this process are through: find deadlocks at once, silence after the timeout, ranks that died."""
        engine = self.engine
        pause, changed, seen = 5e-4, time.monotonic(), None
        while True:
            for end in ends:
                end.wait(pause / len(ends))
            if all(end.is_set() for end in ends):
                return
            pause = min(pause * 1.5, 0.02)
            if words.word(engine.stop, 0):
                continue
            if (verdict := self.verdict()) is not None:
                engine.end(*verdict)
                continue
            if (gone := engine.gone(self.timeout)) is not None:
                engine.end(Stop.DEAD, gone)
                continue
            now = self._progress()
            if now != seen:
                changed, seen = time.monotonic(), now
            elif self.timeout and time.monotonic() - changed > self.timeout and (waiting := self._only_waiting()):
                engine.end(Stop.TIMEOUT, waiting[0])

    def verdict(self) -> tuple[Stop, int] | None:
        """Why the ranks cannot go on, as far as that is certain."""
        if self.engine.wire is not None:
            return self._left_out()
        stuck = self.stuck()
        return self._reason(stuck) if stuck is not None else None

    def _progress(self) -> bytes:
        """What changes when a rank gets on: its record."""
        return self.engine.records[:, : int(Record.PHASE) + 1].tobytes()

    def _only_waiting(self) -> list[int]:
        """The ranks that wait, if none computes: that is no hanging."""
        records = self.engine.records.copy()
        return [] if np.any(records[:, Record.STATE] == State.RUNNING) else _waiting(records)

    # one machine ----------------------------------------------------------------------------------------------------------

    def stuck(self) -> NDArray | None:
        """The records if no rank can go on: all are finished or wait for what does not hold, at two looks between which none has moved.

        They are a copy: once another process has said so too, its ranks move. A rank whose blocks look for cells in turn must have looked for all of them
        while nobody moved: then the looks are further apart, from one round of the watch to the next."""
        first = self.engine.records.copy()
        if not self._all_blocked(first) or np.all(first[:, Record.STATE] == State.FINISHED):
            self._before = None
            return None
        looking = first[:, Record.STATE] == State.LOOKING
        if np.any(looking):
            before, self._before = self._before, first
            if before is None or np.any(first[looking, Record.ROUNDS] < before[looking, Record.ROUNDS] + _ROUNDS):
                self._before = before if before is not None and self._unmoved(before, first) else first
                return None
            return first if self._unmoved(before, first) else None
        again = self.engine.records.copy()
        return again if self._unmoved(first, again) and self._all_blocked(again) else None

    def _unmoved(self, first: NDArray, again: NDArray) -> bool:
        same = [int(Record.STATE), int(Record.TURN), int(Record.DONE), int(Record.CALL)]
        return np.array_equal(first[:, same], again[:, same])

    def _all_blocked(self, records: NDArray) -> bool:
        return all(row[Record.CALL] == self.engine.calls and self._is_blocked(rank, row, records) for rank, row in enumerate(records))

    def _is_blocked(self, rank: int, row: NDArray, records: NDArray) -> bool:
        state = row[Record.STATE]
        if state in (State.FINISHED, State.LOOKING):
            return True
        if state == State.WAITING:
            buffer = self.memory.plan.buffers[int(row[Record.BUFFER])]
            value = self.memory.cell(rank, self.memory.copy_of(buffer, rank) + int(row[Record.CELL]))
            return not (value >= row[Record.EXPECTED] if row[Record.CMP] else value == row[Record.EXPECTED])
        if state == State.MEETING:
            return bool(self._missing(row))
        if state == State.ORDERED:
            return bool(records[int(row[Record.NEEDS]), Record.DONE] <= row[Record.STEPS])
        return False

    def _missing(self, row: NDArray) -> list[int]:
        """Who has not come to the collective that a rank is in."""
        group, phase = int(row[Record.GROUP]), int(row[Record.PHASE])
        return [q for q in self.memory.groups[group] if words.word(self.memory.block(group, q), 0) < phase]

    def _reason(self, records: NDArray) -> tuple[Stop, int]:
        """A deadlock; a rank that finished while others meet is a collective that it left out."""
        for rank, row in enumerate(records):
            if row[Record.STATE] == State.MEETING and any(records[q, Record.STATE] == State.FINISHED for q in self.memory.groups[int(row[Record.GROUP])]):
                return Stop.MISMATCH, rank
        return Stop.DEADLOCK, _waiting(records)[0]

    # several machines -----------------------------------------------------------------------------------------------------

    def _left_out(self) -> tuple[Stop, int] | None:
        """A rank of this process is in a collective that another one will not come to: it has finished this call.

        Other machines tell first that a rank entered a collective, and then that it finished; so here the second is looked at first."""
        records = self.engine.records.copy()
        for rank in self.engine.here:
            row = records[rank]
            if row[Record.STATE] != State.MEETING or row[Record.TURN] != words.word(self.engine.record(rank), Record.TURN):
                continue
            ended = [q for q in self._missing(row) if records[q, Record.STATE] == State.FINISHED and records[q, Record.CALL] == self.engine.calls]
            if ended:
                return Stop.MISMATCH, rank
        return None


def _waiting(records: NDArray) -> list[int]:
    return [rank for rank, row in enumerate(records) if row[Record.STATE] in (State.WAITING, State.LOOKING, State.MEETING, State.ORDERED)]
