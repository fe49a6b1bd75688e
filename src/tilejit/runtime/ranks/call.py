"""Runs a plan: the processes agree about it, ranks run their steps on threads of their own, and everybody gets the outputs or the same error."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from tilejit.errors import RankStopped
from tilejit.lazy import lazy
from tilejit.runtime import machine
from tilejit.runtime.artifact.entry import CompiledEntry
from tilejit.runtime.call import interrupt, printing
from tilejit.runtime.ranks import reports, transfers, words
from tilejit.runtime.ranks.abi import Record, State, Stop
from tilejit.runtime.ranks.config import DistributedConfig
from tilejit.runtime.ranks.engine import Engine
from tilejit.runtime.ranks.memory import Memory, memory_of
from tilejit.runtime.ranks.plan import Plan, Step, Window, WindowBuffer
from tilejit.runtime.ranks.watch import Watch

NDArray = npt.NDArray[Any]


class Call:
    """One run of a plan."""

    memory: Memory

    def __init__(self, engine: Engine, plan: Plan, config: DistributedConfig, keep: bool = False) -> None:
        self.engine, self.plan, self.config = engine, plan, config
        self.moves = transfers.Transfers(engine, plan, config.gather)
        self._keep = keep
        """Windows keep what they hold from an earlier call."""
        self.errors: dict[int, BaseException] = {}
        self._interrupted: BaseException | None = None
        self._in_step = True
        """Whether all processes are in this call."""

    # what steps ask -------------------------------------------------------------------------------------------------------

    def window(self, window: Window, rank: int) -> NDArray:
        """A window as an array, on a rank of this process."""
        return self.memory.window(window, rank)

    def context(self, buffer: WindowBuffer, rank: int) -> int:
        """The address of the context of a buffer on a rank."""
        return self.memory.context(buffer, rank)

    def launch(self, entry: CompiledEntry, arguments: Sequence[object], rank: int) -> Any:
        """Run a kernel, on the threads or the stream of its rank."""
        made = entry.checked(arguments, self.memory.run_config(rank, self._threads))
        self.memory.settle(rank, entry)
        return made

    @lazy
    def _threads(self) -> int:
        return self.config.threads_per_rank or max(1, machine.processors() // len(self.engine.here))

    # running --------------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Everything; raises what went wrong."""
        engine = self.engine
        self._enter()
        try:
            if engine.wire is not None:  # memory that other machines reach is made by all processes together
                self.meet()
                reports.compare(self)
            self.memory = memory_of(engine, self.plan, self.moves.size)
            self.moves.place(self.memory)
            self.memory.prepare(self._keep)
            self.meet()
            if engine.wire is None:
                reports.compare(self)
            self._run_ranks()
            engine.meet(0)  # others may compute for long; if one of them dies, that is said below
            self._raise()
            self.moves.finish(self)
        except BaseException:
            if self._in_step:
                reports.settle(engine, self.config.patience)
            raise
        finally:
            if hasattr(self, "memory"):
                self.memory.forget()
            if engine.wire is not None:
                engine.wire.busy = False

    def _enter(self) -> None:
        engine = self.engine
        engine.calls += 1
        if not engine.several:
            words.set_word(engine.stop, 0, 0)
        if engine.wire is not None:
            engine.wire.busy = True
        for rank in engine.here:
            record = engine.record(rank)
            words.set_word(record, Record.DONE, 0)
            words.set_word(record, Record.STATE, State.RUNNING)
            words.set_word(record, Record.CALL, engine.calls)
        reports.clear(engine)
        reports.present(self)

    def meet(self) -> None:
        """All processes of the call come here."""
        if not self.engine.meet(self.config.patience):
            self._in_step = False
            raise reports.missing(self)

    def _raise(self) -> None:
        """What went wrong on any rank; all processes are at the end of the call, so all know the same."""
        if self._interrupted is not None:
            raise self._interrupted
        reason, rank = self.engine.stopped()
        if reason is not Stop.NOTHING or self.errors:
            raise reports.failure(self, reason, rank)

    def _run_ranks(self) -> None:
        engine = self.engine
        if engine.world == 1 and not self.plan.buffers:  # nothing that a rank could wait for: nobody has to watch
            self._run_rank(0)
            error = self.errors.get(0)
            self._interrupted = error if isinstance(error, KeyboardInterrupt) else None
            return
        ends = [engine.seats[rank].run(functools.partial(self._run_rank, rank)) for rank in engine.here]
        try:
            Watch(engine, self.memory, self.config.timeout).until(ends)
        except BaseException as error:
            self._interrupted = error
            engine.end(Stop.ERROR, engine.here[0])
            for end in ends:
                end.wait()

    def _run_rank(self, rank: int) -> None:
        engine, record = self.engine, self.engine.record(rank)
        step: Step | None = None
        interrupt.obey(engine.stop)
        printing.speak_as(f"[{rank}]" if rank and engine.name != "shm" else "")  # processes of the launcher are told apart by it
        try:
            for step in self.plan.steps:
                if step.rank != rank:
                    continue
                if not self._in_order(step, record):
                    raise RankStopped(f"waits to start {step.name}", span=step.span)
                self.moves.before(step)
                with self.memory.running(rank):
                    step.run(self, rank)
                self.moves.after(step)
                words.set_word(record, Record.DONE, step.number + 1)
                engine.publish_records()
        except BaseException as error:
            self.errors[rank] = reports.told(error, step)
            reports.tell(engine, rank, self.errors[rank])
            if not isinstance(error, RankStopped):
                engine.end(Stop.ERROR, rank)
        finally:
            interrupt.obey(0)
            printing.speak_as("")
            words.set_word(record, Record.TURN, words.word(record, Record.TURN) + 1)
            words.set_word(record, Record.STATE, State.FINISHED)
            engine.publish_records()

    def _in_order(self, step: Step, record: int) -> bool:
        """Wait for the steps of other ranks that come first; False: the call ends."""
        for other in step.after:
            theirs = self.engine.record(other.rank)
            there = lambda theirs=theirs, other=other: words.word(theirs, Record.DONE) > other.number  # noqa: E731
            if not there() and not words.stand(record, self.engine.stop, State.ORDERED, {Record.NEEDS: other.rank, Record.STEPS: other.number}, there):
                return False
        return words.word(self.engine.stop, 0) == 0
