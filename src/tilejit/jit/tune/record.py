"""What is kept of a search on disk: the times of every candidate, and which one was chosen; with it a search goes on where it was stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tilejit.jit.disk.kernels import Key
from tilejit.jit.disk.stores import store
from tilejit.jit.tune.search import Timing, Timings
from tilejit.jit.tune.space import Choice, Point, Space
from tilejit.runtime.store.entry import CacheEntry

SECTION = "tuning.json"
"""The section of an entry that is a search."""


@dataclass
class Record:
    """A search: finished if `best` is known."""

    key: Key
    space: Space
    timings: Timings = field(default_factory=dict[Point, Timing])
    best: Point | None = None
    effort: str = ""
    """Of the search that found the best one; empty: it was stopped."""
    reads: dict[Point, str] = field(default_factory=dict[Point, str])
    """A digest of what Python answered to each candidate that was tried."""

    @property
    def choice(self) -> Choice:
        """The winner of a finished search."""
        assert self.best is not None
        return self.space[self.best]

    def start_anew(self) -> None:
        """Forget what was tried."""
        self.timings.clear()
        self.reads.clear()
        self.best, self.effort = None, ""

    def save(self) -> None:
        """Write it; a cache that fails is no failure."""
        rows = [
            {"point": list(point), "candidate": str(self.space[point]), "seconds": timing.seconds, "rejected": timing.rejected, "reads": self.reads[point]}
            for point, timing in self.timings.items()
            if point in self.reads  # else it was stopped before anything was known
        ]
        text = json.dumps({"best": self.best, "effort": self.effort, "candidates": rows}, indent=1)
        store().put(CacheEntry(self.key.digest, dict(self.key.fields), {SECTION: text.encode()}))


def load(key: Key, space: Space) -> Record:
    """What is known of a search; a new one if nothing is."""
    entry = store().get(key.digest)
    made = Record(key, space)
    if entry is None:
        return made
    try:
        found = cast("Mapping[str, Any]", json.loads(entry.sections[SECTION]))
        for row in found["candidates"]:
            seconds = [float(value) for value in row["seconds"]]
            point = _point(space, row["point"])
            made.timings[point], made.reads[point] = Timing(seconds, str(row["rejected"])), str(row["reads"])
        made.best = None if found["best"] is None else _point(space, found["best"])
        made.effort = str(found["effort"])
    except (KeyError, TypeError, ValueError) as error:
        store().reject(key.digest, f"no search: {error!r}")
        return Record(key, space)
    return made


def _point(space: Space, found: list[int]) -> Point:
    point = tuple(int(at) for at in found)
    if len(point) != len(space.axes) or not all(0 <= at < len(axis.choices) for at, axis in zip(point, space.axes, strict=True)):
        raise ValueError(f"no candidate {found}")
    return point
