"""What came out of a search, to look at."""

from __future__ import annotations

import html
from dataclasses import dataclass

from tilejit.jit.tune.search import Timing, Timings
from tilejit.jit.tune.space import Choice, Point, Space

_SHOWN = 12


@dataclass(frozen=True)
class Tuning:
    """A search and its winner."""

    name: str
    space: Space
    point: Point
    timings: Timings
    effort: str
    compiled: int = 0
    """Candidates that were compiled now."""
    timed: int = 0
    """Samples that were taken now; 0: everything was known."""
    seconds: float = 0.0
    """How long that took."""

    @property
    def best(self) -> Choice:
        """The winner."""
        return self.space[self.point]

    @property
    def speedup(self) -> float | None:
        """Times as fast as untuned; None where that does not run, or a timer gives what are no times."""
        first, best = self.timings.get(self.space.first, Timing()).median, self.timings[self.point].median
        return first / best if best > 0 and 0 < first < float("inf") else None

    @property
    def rows(self) -> list[tuple[str, float | None, int, str]]:
        """Candidates, the fastest first: name, median seconds, samples, why it was rejected."""
        ranked = sorted(self.timings.items(), key=lambda row: (row[0] != self.point, row[1].median, row[0]))
        return [(str(self.space[point]), None if timing.rejected else timing.median, len(timing.seconds), timing.rejected) for point, timing in ranked]

    @property
    def summary(self) -> str:
        """In one line."""
        gain = f", {self.speedup:.2f} × as fast as untuned" if self.speedup is not None else ""
        return f"tilejit: tuned {self.name}: {self.best} of {len(self.timings)} tried and {len(self.space)} possible candidates in {self.seconds:.1f} s{gain}"

    def as_json(self) -> dict[str, object]:
        """For programs that read it."""
        names = ("candidate", "seconds", "samples", "rejected")
        return {
            "kernel": self.name,
            "best": {"arguments": {name: value if isinstance(value, int | float | str | None) else str(value) for name, value in self.best.arguments.items()},
                     "schedule": self.best.schedule},
            "speedup": self.speedup, "effort": self.effort, "possible": len(self.space), "timed": self.timed, "compiled": self.compiled,
            "candidates": [dict(zip(names, row, strict=True)) for row in self.rows],
        }  # fmt: skip

    def __str__(self) -> str:
        rows = [(name, "–" if seconds is None else f"{seconds * 1e6:.1f} µs", str(samples), why) for name, seconds, samples, why in self.rows]
        width = max(len(row[0]) for row in rows)
        lines = [f"{name:<{width}} {time:>12} {samples:>4} × {why}".rstrip() for name, time, samples, why in rows[:_SHOWN]]
        more = [f"… {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
        return "\n".join([self.summary, *lines, *more])

    def _repr_html_(self) -> str:
        """The candidates as a table, for notebooks."""
        cells = ((name, "–" if seconds is None else f"{seconds * 1e6:.1f} µs", samples, why) for name, seconds, samples, why in self.rows)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in cells)
        head = "<tr><th>candidate</th><th>median</th><th>samples</th><th></th></tr>"
        return f"<table><caption>{html.escape(self.summary)}</caption>{head}{body}</table>"
