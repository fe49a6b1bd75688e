"""Timing two functions in turns, and the row that comes out of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

SHORTEST_SAMPLE = 2e-3
"""Seconds; faster functions are called several times per sample."""
FEWEST_SAMPLES = 3
"""Of a row, however long they take."""
SAME = {"cpu": 0.1, "cuda": 0.05}
"""Part of a ratio by which two runs of the same may differ: other programs run beside those of a processor."""
REST, RUN_IN = 0.01, 0.06
"""Seconds without calls, and of calls that are not timed: a virtual machine whose processors were idle gets them back one by one, within some tens of ms."""
TIMED, CALLS = 0.02, (4, 64)
"""Seconds of calls that are timed after those, and how many there are at least and at most."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Our function and a peer's that does the same job."""

    case: str
    peer: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    samples: int = 61
    self_timed: bool = False
    """The functions return the seconds to count, for what happens in another process."""
    check: Callable[[], None] = field(default=lambda: None)
    """Raises when the two disagree: a fast wrong answer is no result."""
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """What our time must be: at most so many times the peer's, and at most so many microseconds."""

    of_peer: float
    microseconds: float | None = None

    def __str__(self) -> str:
        absolute = "" if self.microseconds is None else f" and ≤ {self.microseconds:g} µs"
        return f"≤ {self.of_peer:g} × peer{absolute}"

    def met(self, ratio: float, ours_us: float) -> bool:
        return self.of_peer * ratio >= 1 and (self.microseconds is None or ours_us <= self.microseconds)


@dataclass(frozen=True, slots=True)
class Count:
    """How often something happened that must not happen more than `at_most` times."""

    case: str
    what: str
    count: Callable[[], int]
    at_most: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """A measured pair; `ratio` = peer time / our time, above 1 is in our favour: the median over neighbouring samples, so that a machine which becomes slower
    does so for both sides."""

    case: str
    peer: str
    ratio: float
    ours_us: float
    peer_us: float
    target: str = ""
    met: bool | None = None
    """None: there is no target."""
    runs: tuple[float, ...] = ()
    """The ratios of the first half of the samples and of the second, or those of several passes over all rows."""


@dataclass(frozen=True, slots=True)
class CountRow:
    """A count and whether it is what it must be."""

    case: str
    peer: str
    count: int
    target: str
    met: bool


def count(row: Count) -> CountRow:
    """Count, and compare."""
    found = row.count()
    return CountRow(row.case, row.what, found, f"≤ {row.at_most}" if row.at_most else "0", found <= row.at_most)


def measure(pair: Pair, seconds: float = 3.0) -> Row:
    """Samples taken in turns, so that both functions see the same machine; after so many seconds there are enough, if there are a few."""
    pair.ours()
    pair.theirs()
    pair.check()
    functions = (pair.ours, pair.theirs)
    repeats = [1 if pair.self_timed else _repeats(function) for function in functions]
    times: tuple[list[float], list[float]] = ([], [])
    start = time.perf_counter()
    for done in range(pair.samples):
        if done >= FEWEST_SAMPLES and time.perf_counter() - start > seconds:
            break
        for function, repeat, taken in zip(functions, repeats, times, strict=True):
            taken.append(cast("float", function()) if pair.self_timed else _sample(function, repeat))
    ours, theirs = (statistics.median(taken) * 1e6 for taken in times)
    ratios = [theirs / ours for ours, theirs in zip(*times, strict=True)]
    ratio, target, half = statistics.median(ratios), pair.target, len(ratios) // 2
    runs = (statistics.median(ratios[:half] or ratios), statistics.median(ratios[half:]))
    return Row(pair.case, pair.peer, ratio, ours, theirs, str(target or ""), target and target.met(ratio, ours), runs)


def together(pair: Pair, passes: Sequence[Row]) -> Row:
    """A row of several passes: the medians of their times and ratios, and the ratio of each."""
    if len(passes) == 1:
        return passes[0]
    ratio, ours, theirs = (statistics.median(of) for of in zip(*((row.ratio, row.ours_us, row.peer_us) for row in passes), strict=True))
    met = pair.target and pair.target.met(ratio, ours)
    return replace(passes[0], ratio=ratio, ours_us=ours, peer_us=theirs, met=met, runs=tuple(row.ratio for row in passes))


def agree(runs: Sequence[float], part: float) -> bool:
    """Whether ratios of the same differ by no more than so much."""
    return max(runs) <= min(runs) * (1 + part)


def rested(pair: Pair) -> Pair:
    """Each side in calls that follow each other, of which a sample is the median, after a rest and a run-in: threads of the other side look for work."""
    if pair.self_timed:
        return pair

    def timed(call: Callable[[], object]) -> Callable[[], float]:
        def seconds() -> float:
            time.sleep(REST)
            until = time.perf_counter() + RUN_IN
            while time.perf_counter() < until:
                call()
            times: list[float] = []
            while len(times) < CALLS[0] or (len(times) < CALLS[1] and sum(times) < TIMED):
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
            return statistics.median(times)

        return seconds

    return replace(pair, ours=timed(pair.ours), theirs=timed(pair.theirs), self_timed=True)


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
