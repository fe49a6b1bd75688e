"""Timing two functions in turns, and the row that comes out of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

SHORTEST_SAMPLE = 2e-3
"""Seconds; faster functions are called several times per sample."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Our function and a peer's that does the same job."""

    case: str
    peer: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    samples: int = 21
    self_timed: bool = False
    """The functions return the seconds to count, for what happens in another process."""
    check: Callable[[], None] = field(default=lambda: None)
    """Raises when the two disagree: a fast wrong answer is no result."""


@dataclass(frozen=True, slots=True)
class Row:
    """A measured pair; `ratio` = peer time / our time, above 1 is in our favour."""

    case: str
    peer: str
    ratio: float
    ours_us: float
    peer_us: float


def measure(pair: Pair) -> Row:
    """Medians of samples taken in turns, so that both functions see the same machine."""
    pair.ours()
    pair.theirs()
    pair.check()
    functions = (pair.ours, pair.theirs)
    repeats = [1 if pair.self_timed else _repeats(function) for function in functions]
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(pair.samples):
        for function, repeat, seconds in zip(functions, repeats, times, strict=True):
            seconds.append(cast("float", function()) if pair.self_timed else _sample(function, repeat))
    ours, theirs = (statistics.median(seconds) for seconds in times)
    return Row(pair.case, pair.peer, theirs / ours, ours * 1e6, theirs * 1e6)


def _sample(function: Callable[[], object], repeat: int) -> float:
    start = time.perf_counter()
    for _ in range(repeat):
        function()
    return (time.perf_counter() - start) / repeat


def _repeats(function: Callable[[], object]) -> int:
    start = time.perf_counter()
    function()
    once = time.perf_counter() - start
    return max(1, min(100_000, round(SHORTEST_SAMPLE / max(once, 1e-8))))
