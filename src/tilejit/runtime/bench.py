"""Timing a compiled program: `benchmark` and what it returns."""

from __future__ import annotations

import copy
import html
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from tilejit.runtime.arrays import ArrayView, first_array
from tilejit.runtime.artifact.sections import EntryInfo
from tilejit.runtime.call.signature import Bound

if TYPE_CHECKING:
    from tilejit.runtime.artifact.compiled import CompiledProgram
    from tilejit.runtime.artifact.entry import CompiledEntry


@dataclass(frozen=True, slots=True)
class BenchmarkStats:
    """Times of repeated calls, in microseconds: `host_us` of whole calls, `device_us` of the kernel alone.

    The statistics are those of the kernel.
    """

    name: str
    host_us: list[float]
    device_us: list[float]
    bytes: int
    """Bytes of all tensors read plus all tensors written."""
    operations: int | None
    """Arithmetic operations of one call; None when only the run could tell."""

    def _repr_html_(self) -> str:
        """The statistics as a table, for notebooks."""
        rows = {"median": self.median, "min": self.min, "max": self.max, "mean": self.mean, "stdev": self.stdev}
        head = "".join(f"<th>{name}</th>" for name in (*rows, "GB/s"))
        body = "".join(f"<td>{value:.2f} µs</td>" for value in rows.values()) + f"<td>{self.gigabytes_per_second:.2f}</td>"
        return f"<table><caption><code>{html.escape(self.name)}</code>, {len(self.device_us)} calls</caption><tr>{head}</tr><tr>{body}</tr></table>"

    @property
    def median(self) -> float:
        return statistics.median(self.device_us)

    @property
    def min(self) -> float:
        return min(self.device_us)

    @property
    def max(self) -> float:
        return max(self.device_us)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.device_us)

    @property
    def stdev(self) -> float:
        return statistics.stdev(self.device_us) if len(self.device_us) > 1 else 0.0

    @property
    def gigabytes_per_second(self) -> float:
        """Achieved at the median."""
        return self.bytes / (self.median * 1e3) if self.median else 0.0

    @property
    def flops(self) -> float | None:
        """Operations per second, achieved at the median; None when their number is unknown."""
        return None if self.operations is None else self.operations / (self.median * 1e-6) if self.median else 0.0

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("", "median", "min", "max", "mean", "stdev")]
        for title, times in (("call", self.host_us), ("kernel", self.device_us)):
            spread = statistics.stdev(times) if len(times) > 1 else 0.0
            rows.append((title, *(f"{value:.2f}" for value in (statistics.median(times), min(times), max(times), statistics.fmean(times), spread))))
        table = "\n".join("  ".join(f"{cell:>10}" if i else f"{cell:<8}" for i, cell in enumerate(row)) for row in rows)
        rate = f"{self.gigabytes_per_second:.2f} GB/s" + (f", {self.flops / 1e9:.2f} GFLOP/s" if self.flops else "")
        return f"{self.name}: {len(self.device_us)} rounds, microseconds\n{table}\n{rate}"


def benchmark(compiled: CompiledProgram | CompiledEntry, args: Sequence[object], rounds: int = 100, warmup: int = 3) -> BenchmarkStats:
    """Time `rounds` calls after `warmup` untimed ones; `args` as for a call, in either style."""
    if rounds < 1 or warmup < 0:
        raise ValueError(f"rounds must be positive and warmup not negative, got {rounds} and {warmup}")
    from tilejit.runtime.artifact.compiled import CompiledProgram

    entry = compiled.only("benchmark") if isinstance(compiled, CompiledProgram) else compiled
    bound = BoundCall(entry, args)
    host = _times(lambda: entry(*args), rounds, warmup)
    return BenchmarkStats(entry.signature.name, host, bound.times(rounds, warmup), bound.bytes, bound.operations)


class BoundCall:
    """A call whose arguments are checked once, to be run again and again; it keeps its outputs alive."""

    def __init__(self, entry: CompiledEntry, args: Sequence[object], num_threads: int | None = None) -> None:
        self._entry, self._threads = entry, num_threads
        self._bound, self.results = entry.bind(args)
        """The arrays that were allocated for outputs that `args` leave out."""

    def announce(self) -> None:
        """The caller's own arrays are about to be written: autograd hears of it as from a call, once for all that follow."""
        self._entry.announce(self._bound)

    def with_entry(self, entry: CompiledEntry) -> BoundCall:
        """The same arguments for the same program, compiled in another way."""
        made = copy.copy(self)
        made._entry = entry
        return made

    def run(self) -> None:
        """Once; on a GPU it is only started."""
        self._entry.runner.run(self._bound, self._threads)

    def times(self, rounds: int, warmup: int) -> list[float]:
        """Microseconds of the kernel alone, on the device where it runs."""
        on_device = getattr(self._entry.runner, "device_times", None)
        return on_device(self._bound, rounds, warmup) if on_device is not None else _times(self.run, rounds, warmup)

    def region_times(self, functions: Sequence[str], rounds: int) -> dict[str, tuple[float, int]]:
        """Seconds and runs of each region in one call of a program that was compiled to be profiled; empty where the target has no clock for them."""
        measured = getattr(self._entry.runner, "region_times", None)
        return measured(self._bound, functions, rounds) if measured is not None else {}

    @property
    def first_array(self) -> ArrayView | None:
        """What says where the call runs."""
        return first_array(self._bound)

    @property
    def extents(self) -> dict[str, int]:
        """The dynamic extents by name."""
        return _extents(self._entry.info, self._bound)

    @property
    def on_device(self) -> bool:
        """Whether the kernel runs on while Python does."""
        return hasattr(self._entry.runner, "device_times")

    @property
    def bytes(self) -> int:
        """Bytes of all tensors read plus all tensors written."""
        return _bytes(self._entry.info, self._bound)

    @property
    def operations(self) -> int | None:
        """Arithmetic operations of one call, as the program counts them; None when only the run could tell."""
        return _operations(self._entry.info, self._bound)


def _times(call: Callable[[], object], rounds: int, warmup: int) -> list[float]:
    for _ in range(warmup):
        call()
    found: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        call()
        found.append((time.perf_counter_ns() - start) / 1e3)
    return found


def _bytes(info: EntryInfo, bound: Sequence[Bound]) -> int:
    total = 0
    for param, argument in zip(info.signature.code_params, bound, strict=True):
        if isinstance(argument, ArrayView):
            total += prod(argument.shape) * param.dtype.get_byte() * (2 if param.direction == "InOut" else 1)
    return total


def _extents(info: EntryInfo, bound: Sequence[Bound]) -> dict[str, int]:
    extents: dict[str, int] = {}
    for param, argument in zip(info.signature.code_params, bound, strict=True):
        if isinstance(argument, ArrayView) and param.shape is not None:
            extents.update({dim: extent for dim, extent in zip(param.shape, argument.shape, strict=True) if isinstance(dim, str)})
    return extents


def _operations(info: EntryInfo, bound: Sequence[Bound]) -> int | None:
    if info.operations is None:
        return None
    extents = _extents(info, bound)
    total = 0
    for coefficient, symbols in info.operations:
        if any(symbol not in extents for symbol in symbols):
            return None
        total += coefficient * prod(extents[symbol] for symbol in symbols)
    return total
