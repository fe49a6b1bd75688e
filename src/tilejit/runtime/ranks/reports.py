"""What goes wrong on ranks: told to the other processes, and put together into the one error that the call raises."""

from __future__ import annotations

import ctypes
import hashlib
import json
import time
from typing import TYPE_CHECKING, Any

from tilejit import errors
from tilejit.errors import (
    CollectiveMismatchError,
    DistributedError,
    ProgramMismatchError,
    RankDeadlockError,
    RankFailedError,
    RankStopped,
    SourceText,
    Span,
    TilejitError,
    WaitTimeoutError,
)
from tilejit.runtime.ranks import words
from tilejit.runtime.ranks.abi import Record, State, Stop
from tilejit.runtime.ranks.engine import REPORT, Engine
from tilejit.runtime.ranks.kept import take_failure

if TYPE_CHECKING:
    from tilejit.runtime.ranks.call import Call
    from tilejit.runtime.ranks.plan import Step

PARTLY = "found while the ranks ran: outputs may be partly written"
_GRACE = 2.0
"""Seconds in which the other processes tell what they were doing."""


def told(error: BaseException, step: Step | None) -> BaseException:
    """The error of a step: one that a collective left behind goes before the failure it led to."""
    left = take_failure()
    if left is not None and isinstance(error, RankStopped):
        if isinstance(left, TilejitError) and error.span is not None:
            left.located(error.span)
        error = left
    if isinstance(error, TilejitError) and error.span is None and step is not None and step.span is not None:
        error.located(step.span)
    return error


# between processes ------------------------------------------------------------------------------------------------------


def clear(engine: Engine) -> None:
    for rank in engine.here:
        words.set_word(engine.report(rank), 0, 0)
        engine.publish(engine.report(rank), 8)


def tell(engine: Engine, rank: int, error: BaseException) -> None:
    """Leave an error where the other processes find it."""
    if not engine.several:
        return
    data = json.dumps(_written(error)).encode()[: REPORT - 8]
    ctypes.memmove(engine.report(rank) + 8, data, len(data))
    words.set_word(engine.report(rank), 0, len(data))
    engine.publish(engine.report(rank), 8 + len(data))


def _written(error: BaseException) -> dict[str, Any]:
    if not isinstance(error, TilejitError):
        return {"class": type(error).__name__, "message": f"{type(error).__name__}: {error}"}
    span = error.span
    place = None
    if span is not None:
        place = [span.filename, span.line, span.column, span.end_line, span.end_column, span.function, span.source.line(span.line)]
    return {
        "class": type(error).__name__,
        "message": error.message,
        "help": error.hint,
        "note": error.note,
        "where": error.where,
        "span": place,
        "ranks": getattr(error, "ranks", ()),
    }


def _read(engine: Engine, rank: int) -> TilejitError | None:
    """What another process told."""
    size = words.word(engine.report(rank), 0)
    if size <= 0:
        return None
    try:
        found = json.loads(ctypes.string_at(engine.report(rank) + 8, size))
    except ValueError:
        return None
    kind = getattr(errors, found["class"], None)
    kind = kind if isinstance(kind, type) and issubclass(kind, TilejitError) else RankFailedError
    span = None
    if found.get("span"):
        filename, line, column, end_line, end_column, function, text = found["span"]
        span = Span(SourceText(filename, (text,) if text is not None else (), line), line, column, end_line, end_column, function)
    error = kind(found["message"], span=span, help=found.get("help"), note=found.get("note"), where=found.get("where") or ())
    if isinstance(error, DistributedError):
        error.ranks = tuple(found.get("ranks") or ())
    return error


def _everybodys(call: Call) -> dict[int, BaseException]:
    """The errors of all ranks, by rank; other processes have a moment to tell theirs."""
    found = dict(call.errors)
    until = time.monotonic() + _GRACE
    others = [rank for rank in range(call.engine.world) if rank not in call.engine.here]
    while others and time.monotonic() < until:
        for rank in list(others):
            error = _read(call.engine, rank)
            if error is not None:
                found[rank] = error
            if error is not None or not call.engine.alive(rank) or words.word(call.engine.record(rank), Record.STATE) == State.FINISHED:
                others.remove(rank)
        time.sleep(1e-3 if others else 0)
    return found


# the error of the call ---------------------------------------------------------------------------------------------------


def failure(call: Call, reason: Stop, culprit: int) -> BaseException:
    """What the call raises."""
    found = _everybodys(call)
    real = {rank: error for rank, error in sorted(found.items()) if not isinstance(error, RankStopped)}
    stopped = {rank: error for rank, error in sorted(found.items()) if isinstance(error, RankStopped)}
    if real:
        return _original(call, real)
    if reason is Stop.DEAD:
        return _dead(culprit, stopped, call)
    lines = [f"rank {rank} {error.message}{_line(error)}" for rank, error in stopped.items()]
    first = next(iter(stopped.values()), None)
    place = first.span if first is not None else None
    n = len(stopped)
    if reason is Stop.MISMATCH:
        ended = [rank for rank in range(call.engine.world) if rank not in stopped]
        message = f"rank {ended[0] if ended else '?'} ended while others are in a collective"
        error: DistributedError = CollectiveMismatchError(message, span=place, where=lines, help="all ranks of a group call the same collectives")
    elif reason is Stop.TIMEOUT:
        help = "a peer is slow or the signal never comes; TILEJIT_WAIT_TIMEOUT and DistributedConfig(timeout_s=…) set the limit"
        error = WaitTimeoutError(f"nothing has moved for {call.config.timeout:g} s while {n} ranks wait", span=place, where=lines, help=help)
    else:
        who = f"all {n} ranks wait" if n == call.engine.world and n > 1 else f"rank {next(iter(stopped), culprit)} waits" if n == 1 else f"{n} ranks wait"
        them = "it" if n == 1 else "them"
        error = RankDeadlockError(f"{who} and nobody is left to notify {them}", span=place, where=lines, help=_deadlock_help(call, stopped))
    error.ranks = tuple(stopped)
    error.note = PARTLY
    return error


def _deadlock_help(call: Call, stopped: dict[int, RankStopped]) -> str:
    if any("waits to start" in error.message for error in stopped.values()):
        return "a launch comes after earlier ones that touch the same host tensor: pass slices such as y[r]"
    return "windows start at zero in every call, so the first round expects what the peers add in it; or move the notify up, or use defer_wait"


def _line(error: TilejitError) -> str:
    return f" (line {error.span.line})" if error.span is not None else ""


def _original(call: Call, real: dict[int, BaseException]) -> BaseException:
    rank, error = next(iter(real.items()))
    ids = list(call.config.device_ids)
    device = f" (device {ids[rank]})" if rank < len(ids) else ""
    place = f"rank {rank} of {call.engine.world}{device}"
    if isinstance(error, TilejitError):
        error.where = (*error.where, place)
        error.note = error.note or PARTLY
        if isinstance(error, DistributedError) and not error.ranks:
            error.ranks = (rank,)
    else:
        error.add_note(f"on {place}; {PARTLY}")
    for other, text in list(real.items())[1:]:
        error.add_note(f"rank {other}: {text.message if isinstance(text, TilejitError) else text}")
    return error


def _dead(culprit: int, stopped: dict[int, RankStopped], call: Call) -> RankFailedError:
    last = next((step for step in call.plan.steps if step.rank == culprit and step.number == words.word(call.engine.record(culprit), Record.DONE)), None)
    doing = f"; it was in {last.name}" + (f", line {last.span.line}" if last.span is not None else "") if last is not None else ""
    place = next(iter(stopped.values())).span if stopped else _first_line(call)
    error = RankFailedError(f"the process of rank {culprit} ended{doing}", span=place, note=PARTLY, help="its own output says more")
    error.ranks = (culprit,)
    return error


def missing(call: Call) -> TilejitError:
    """Another process did not come to the call."""
    reason, rank = call.engine.stopped()
    if reason is Stop.DEAD:
        return _dead(rank, {}, call)
    late = [q for q in range(call.engine.world) if words.word(call.engine.record(q), Record.CALL) < call.engine.calls]
    error = ProgramMismatchError(
        f"rank {late[0] if late else '?'} has made fewer calls than the others",
        span=_first_line(call),
        help="every process makes the same calls, in the same order",
    )
    error.ranks = tuple(late)
    return error


# agreement --------------------------------------------------------------------------------------------------------------


def present(call: Call) -> None:
    """Write down what this process thinks the call is."""
    assert len(call.plan.facts) <= Record.ROUNDS - Record.FACTS
    if call.engine.several:
        for rank in call.engine.here:
            for slot, fact in enumerate(call.plan.facts.values()):
                words.set_word(call.engine.record(rank), Record.FACTS + slot, _digest(fact.value))


def compare(call: Call) -> None:
    """All processes of a job must be in the same call of the same program."""
    if not call.engine.several:
        return
    for slot, (name, fact) in enumerate(call.plan.facts.items()):
        held: dict[int, list[int]] = {}
        for rank in range(call.engine.world):
            held.setdefault(words.word(call.engine.record(rank), Record.FACTS + slot), []).append(rank)
        if len(held) > 1:
            sides = [f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}" for ranks in sorted(held.values())]
            error = ProgramMismatchError(f"the processes of this call differ in {name}: {' against '.join(sides)}", span=_first_line(call), help=fact.help)
            error.ranks = tuple(rank for ranks in sorted(held.values()) for rank in ranks)
            raise error


def _first_line(call: Call) -> Span | None:
    """Where this process would have begun."""
    return next((step.span for step in call.plan.steps if step.span is not None), None)


def _digest(value: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(value).encode()).digest()[:7], "little")


def settle(engine: Engine, patience: float) -> None:
    """After a failure: let everybody have seen it, then forget it, so that the next call can start."""
    if not engine.several or engine.stopped()[0] is Stop.DEAD:
        return
    if engine.meet(patience):
        if engine.leads:
            words.set_word(engine.stop, 0, 0)
        if engine.wire is not None:
            engine.wire.forget_groups()
        engine.meet(patience)
