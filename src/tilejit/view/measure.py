"""Timing calls: medians of samples taken in turns with peers, rates by what the program itself counts, tables and plots."""

from __future__ import annotations

import html
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, cast

from tilejit.errors import ArgumentError, did_you_mean
from tilejit.runtime.arrays import devices_of
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.artifact.entry import CompiledEntry
from tilejit.runtime.bench import BoundCall
from tilejit.view.plot import Axis, Plot, Series

SHORTEST_SAMPLE = 2e-4
"""Seconds; faster functions are called several times per sample."""
_MOST_CALLS = 10_000


@dataclass(frozen=True, slots=True)
class Measured:
    """The seconds of one call, sample by sample."""

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """The middle half of the samples, relative to the median."""
        if len(self.seconds) < 4:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return (high - low) / self.median if self.median else 0.0


@dataclass(frozen=True, slots=True)
class Bench:
    """Functions that do the same job, ours first, with what the job consists of."""

    rows: tuple[Measured, ...]
    bytes: int | None
    """Bytes of all tensors read plus all tensors written; None: no function is a kernel, and nothing counts them."""
    operations: int | None
    """Arithmetic operations, as the program counts them; None: only the run could tell."""

    @property
    def median(self) -> float:
        """Seconds of the first function."""
        return self.rows[0].median

    def rate(self, row: Measured, unit: str) -> float | None:
        """What a row achieves: `GB/s`, `GFLOP/s`, or microseconds of a call, `us`."""
        if unit == "us":
            return row.median * 1e6
        work = self.bytes if unit == "GB/s" else self.operations
        return work / row.median / 1e9 if work and row.median else None

    def ratio(self, row: Measured) -> float:
        """How many times as long as the first function it takes."""
        return row.median / self.median if self.median else 0.0

    def cells(self) -> list[tuple[str, ...]]:
        """The table, headings first."""
        out: list[tuple[str, ...]] = [("", "median", "spread", "GB/s", "GFLOP/s", "ratio")]
        for row in self.rows:
            rates = (self.rate(row, unit) for unit in ("GB/s", "GFLOP/s"))
            shown = ("–" if rate is None else f"{rate:.2f}" for rate in rates)
            out.append((row.name, f"{row.median * 1e6:.2f} µs", f"{row.spread:.0%}", *shown, f"{self.ratio(row):.2f} ×"))
        return out

    def as_json(self) -> dict[str, object]:
        """For programs that read it."""
        rows = [
            {"name": row.name, "median_us": row.median * 1e6, "spread": row.spread, "gb_per_s": self.rate(row, "GB/s"),
             "gflop_per_s": self.rate(row, "GFLOP/s"), "ratio": self.ratio(row), "samples": len(row.seconds)}
            for row in self.rows
        ]  # fmt: skip
        return {"rows": rows, "bytes": self.bytes, "operations": self.operations}

    def __str__(self) -> str:
        return table(self.cells())

    def _repr_html_(self) -> str:
        return html_table(self.cells())


def table(cells: Sequence[Sequence[str]]) -> str:
    """Rows as text, the first column to the left."""
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    lines = ("  ".join(cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(zip(row, widths, strict=True))) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def html_table(cells: Sequence[Sequence[str]], caption: str = "") -> str:
    """The same for notebooks."""
    head, *rows = cells
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{title}<tr>{top}</tr>{body}</table>"


def bench(
    function: Callable[..., object],
    *args: object,
    peers: Mapping[str, Callable[..., object]] | None = None,
    rounds: int = 21,
    warmup: int = 2,
    **kwargs: object,
) -> Bench:
    """Time calls of `function` and of peers with the same arguments, in turns, so that all see the same machine."""
    if rounds < 1 or warmup < 0:
        raise ArgumentError(f"rounds must be positive and warmup not negative, got {rounds} and {warmup}", help="write rounds=21, warmup=2")
    others = dict(peers or {})
    for name, peer in others.items():
        if not callable(peer):
            raise ArgumentError(f"the peer {name!r} is no function: {peer!r}", help="write peers={'numpy': function}")
    functions = {_name(function): function, **others}
    wait = _synchroniser((*args, *kwargs.values()))
    repeats = {name: _repeats(call, args, kwargs, wait, warmup) for name, call in functions.items()}
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, call in functions.items():
            seconds[name].append(_sample(call, args, kwargs, wait, repeats[name]))
    counted = next((found for call in functions.values() if (found := _counts(call, args, kwargs)) is not None), (None, None))
    return Bench(tuple(Measured(name, tuple(times)) for name, times in seconds.items()), *counted)


def _name(function: Callable[..., object]) -> str:
    return str(getattr(function, "__name__", None) or getattr(function, "name", None) or type(function).__name__)


def _sample(call: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object], wait: Callable[[], None], repeats: int) -> float:
    wait()
    start = time.perf_counter()
    for _ in range(repeats):
        call(*args, **kwargs)
    wait()
    return (time.perf_counter() - start) / repeats


def _repeats(call: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object], wait: Callable[[], None], warmup: int) -> int:
    for _ in range(warmup):
        call(*args, **kwargs)
    once = _sample(call, args, kwargs, wait, 1)
    return max(1, min(_MOST_CALLS, round(SHORTEST_SAMPLE / max(once, 1e-8))))


def _synchroniser(values: Iterable[object]) -> Callable[[], None]:
    """Waits for what was started on the devices of some arrays."""
    devices = devices_of(values)
    if not devices:
        return lambda: None
    if "torch" in sys.modules:
        from tilejit.runtime import torch

        return torch.wait_for_devices
    from tilejit.runtime.cuda.entry import synchronise

    return synchronise


def _counts(function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[int, int | None] | None:
    """Bytes and operations of a call, as the program of a kernel says; None where there is no program."""
    if isinstance(function, CompiledProgram | CompiledEntry):
        entry = function.only("measure") if isinstance(function, CompiledProgram) else function
        call = BoundCall(entry, list(args))
    elif hasattr(function, "bound_call"):
        call = cast("BoundCall", cast("Any", function).bound_call(*args, **kwargs))
    else:
        return None
    return call.bytes, call.operations


# ----------------------------------------------------------------------------------------------------------------------
# reports

UNITS = {"us": "microseconds per call", "GB/s": "GB/s", "GFLOP/s": "GFLOP/s"}


@dataclass(frozen=True, slots=True)
class Report:
    """The same functions over a range of sizes."""

    title: str
    x: str
    unit: str
    benches: Mapping[float, Bench]

    def cells(self) -> list[tuple[str, ...]]:
        """The table, headings first."""
        names = [row.name for row in next(iter(self.benches.values())).rows]
        rows = [(f"{size:g}", *("–" if value is None else f"{value:.2f}" for value in self._values(bench))) for size, bench in self.benches.items()]
        return [(self.x, *names), *rows]

    def _values(self, bench: Bench) -> list[float | None]:
        return [bench.rate(row, self.unit) for row in bench.rows]

    def svg(self) -> str:
        """A plot of it."""
        sizes = list(self.benches)
        spread = bool(sizes) and min(sizes) > 0 and max(sizes) / min(sizes) >= 16
        plot = Plot(self.title, Axis(self.x, spread), Axis(UNITS[self.unit]))
        for at, name in enumerate(self.cells()[0][1:]):
            points = [(float(size), value) for size, bench in self.benches.items() if (value := self._values(bench)[at]) is not None]
            plot.series.append(Series(name, points))
        return plot.svg()

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the plot (`.svg`), or the table as text or as comma-separated values (`.csv`)."""
        target = Path(path)
        texts = {".svg": self.svg, ".csv": lambda: "\n".join(",".join(row) for row in self.cells()) + "\n"}
        target.write_text(texts.get(target.suffix, lambda: f"{self}\n")(), encoding="utf-8")
        return target

    def as_json(self) -> dict[str, object]:
        """For programs that read it."""
        return {"title": self.title, "x": self.x, "unit": self.unit, "sizes": {f"{size:g}": bench.as_json() for size, bench in self.benches.items()}}

    def __str__(self) -> str:
        return f"{self.title}: {UNITS[self.unit]}\n{table(self.cells())}"

    def _repr_html_(self) -> str:
        return self.svg() + html_table(self.cells(), f"{self.title}: {UNITS[self.unit]}")


def perf_report(
    function: Callable[..., object],
    x: str,
    values: Iterable[float],
    make: Callable[[Any], tuple[object, ...]],
    *,
    peers: Mapping[str, Callable[..., object]] | None = None,
    unit: str = "us",
    title: str | None = None,
    rounds: int = 11,
) -> Report:
    """Time `function` and peers on what `make(size)` gives, for every size; `x` says what the sizes are."""
    if unit not in UNITS:
        raise ArgumentError(f"unit is one of {', '.join(UNITS)}, got {unit!r}", help=did_you_mean(unit, UNITS) or "write unit='us'")
    benches = {size: bench(function, *make(size), peers=peers, rounds=rounds) for size in values}
    if not benches:
        raise ArgumentError("a report needs at least one size", help="write values=[256, 1024, 4096]")
    return Report(title or _name(function), x, unit, benches)
