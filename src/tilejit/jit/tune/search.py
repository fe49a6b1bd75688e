"""Which candidates are tried, how often each is timed, and which one wins; nothing here knows a kernel or a clock."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tilejit.jit.tune.space import Point, Space

EFFORTS = ("quick", "full")
"""`quick` goes along one axis after the other, `full` tries every candidate."""

_SAMPLES = (1, 2, 4)
"""How often a candidate has been timed after each round of a race."""
_FINAL = 9
"""How often those are timed that the winner comes from."""
_FINALISTS = 4
_SLOW = (1.5, 1.2, 1.08)
"""Who takes so many times as long as the best after a round is out."""
_SWEEPS = 3


@dataclass
class Timing:
    """What is known of a candidate."""

    seconds: list[float] = field(default_factory=list[float])
    rejected: str = ""
    """Why it is no candidate any more."""

    @property
    def median(self) -> float:
        return self.early(len(self.seconds))

    def early(self, samples: int) -> float:
        """The median of the first times: a search that goes on from a record decides by what the one before it knew, and so times nothing again."""
        return statistics.median(self.seconds[:samples]) if self.seconds and not self.rejected else float("inf")


Timings = dict[Point, Timing]


class Trials(Protocol):
    """Tries candidates; what it knows already it does not try again."""

    timings: Timings

    def ensure(self, point: Point, samples: int) -> None:
        """Have a candidate compiled, checked and timed at least so often, unless it is rejected."""
        ...


@dataclass
class Search:
    """A search of one space; the same seed and the same times lead the same way."""

    space: Space
    trials: Trials
    over: Callable[[], bool]
    """Whether to stop: the best so far has to do."""
    seed: int = 0

    def run(self, effort: str) -> Point | None:
        """The best candidate; None when none is right."""
        if effort == "full":
            self._race(list(self.space.points()))
        else:
            self._along_axes()
        return self._final()

    def _along_axes(self) -> None:
        """From the untuned candidate on, the best value of one axis after the other, until nothing gets better."""
        order = list(range(len(self.space.axes)))
        random.Random(self.seed).shuffle(order)
        best = self._start()
        for _ in range(_SWEEPS if best is not None else 0):
            before = best
            for axis in order:
                assert best is not None
                best = self._race([(*best[:axis], at, *best[axis + 1 :]) for at in range(len(self.space.axes[axis].choices))]) or best
            if best == before or self.over():
                break

    def _start(self) -> Point | None:
        """The first candidate that is right: the untuned one, else any."""
        for point in self.space.points():
            if self.over():
                break
            self.trials.ensure(point, _SAMPLES[0])
            if not self.trials.timings[point].rejected:
                return point
        return None

    def _race(self, points: Sequence[Point]) -> Point | None:
        """The fastest of some candidates, timed in turns; who is clearly slower than the best so far is not timed to the end."""
        running = list(points)
        for samples, slow in zip(_SAMPLES, _SLOW, strict=True):
            for point in running:
                if self.over():
                    break
                self.trials.ensure(point, samples)
            running = [point for point in running if point in self.trials.timings and not self.trials.timings[point].rejected]
            least = min((self.trials.timings[point].early(samples) for point in running), default=0.0)
            running = [point for point in running if self.trials.timings[point].early(samples) <= _at_most(least, slow)]
        return min(running, key=self._early_rank, default=None)

    def _final(self) -> Point | None:
        """The best of all, the closest ones timed more often and in turns."""
        right = sorted((point for point, timing in self.trials.timings.items() if timing.median < float("inf")), key=self._early_rank)[:_FINALISTS]
        close = [point for point in right if self._early_rank(point)[0] <= _at_most(self._early_rank(right[0])[0], _SLOW[-1])]
        for samples in range(_SAMPLES[-1] + 1, _FINAL + 1) if len(close) > 1 else ():
            for point in close:
                if not self.over():
                    self.trials.ensure(point, samples)
        return min(close, key=self._rank, default=None)

    def _rank(self, point: Point) -> tuple[float, Point]:
        return self.trials.timings[point].median, point

    def _early_rank(self, point: Point) -> tuple[float, Point]:
        return self.trials.timings[point].early(_SAMPLES[-1]), point


def _at_most(least: float, slow: float) -> float:
    """The time of who is so many times as slow as the best; a timer may count from anywhere, also below zero."""
    return least + (slow - 1) * abs(least)
