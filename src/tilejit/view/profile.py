"""Where the time of a call goes: region by region, against what the machine can do; and where the time of its compile went."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod

from tilejit.compiler import compile_program
from tilejit.passes import clock, cost
from tilejit.passes.context import CallbackInstrument, PassContext
from tilejit.runtime.bench import BoundCall
from tilejit.runtime.config import RunConfig
from tilejit.tile_ir import dialect as d
from tilejit.tile_ir.build import constant_of
from tilejit.tile_ir.program import Program
from tilejit.types.values import ShapedType
from tilejit.view.limits import Limits, limits
from tilejit.view.measure import html_table, table
from tilejit.view.plot import Axis, Plot, Series


@dataclass(frozen=True, slots=True)
class Part:
    """A region of a kernel, or the whole call."""

    name: str
    seconds: float
    calls: int
    operations: int | None
    bytes: int | None

    @property
    def intensity(self) -> float | None:
        """Operations per byte."""
        return self.operations / self.bytes if self.operations and self.bytes else None

    def bound(self, roof: Limits) -> str:
        """What it waits for, and how near it comes to what the machine can do."""
        if not self.seconds or not self.bytes:
            return "–"
        bandwidth = roof.bandwidth(self.bytes)
        if self.intensity is None or self.intensity * bandwidth < roof.arithmetic:
            where = "memory" if bandwidth == roof.memory else "caches"
            return f"{where}: {self.bytes / self.seconds / bandwidth:.0%} of {bandwidth / 1e9:.1f} GB/s"
        return f"arithmetic: {(self.operations or 0) / self.seconds / roof.arithmetic:.0%} of {roof.arithmetic / 1e9:.0f} GFLOP/s"


@dataclass(frozen=True)
class Profile:
    """What was measured: `whole` is the call, `parts` its regions in the order in which they stand, `passes` the stages of its compile in seconds."""

    name: str
    platform: str
    whole: Part
    parts: tuple[Part, ...]
    passes: tuple[tuple[str, float], ...]
    roof: Limits

    def cells(self) -> list[tuple[str, ...]]:
        """The table of regions, headings first."""
        total = sum(part.seconds for part in self.parts) or 1.0
        rows: list[tuple[str, ...]] = [("", "time", "share", "runs", "GB/s", "GFLOP/s", "bound by")]
        for part in (self.whole, *self.parts):
            rates = ("–" if work is None or not part.seconds else f"{work / part.seconds / 1e9:.2f}" for work in (part.bytes, part.operations))
            share = "" if part is self.whole else f"{part.seconds / total:.0%}"
            rows.append((part.name, f"{part.seconds * 1e6:.2f} µs", share, str(part.calls), *rates, part.bound(self.roof)))
        return rows

    def compile_cells(self) -> list[tuple[str, ...]]:
        """The table of the compile, headings first."""
        return [("compile", "time"), *((name, f"{seconds * 1e3:.2f} ms") for name, seconds in self.passes)]

    def svg(self) -> str:
        """The roofline: how much arithmetic a byte brings, what the machine can do with it, and what is achieved."""
        shown = [(part, part.intensity) for part in (self.whole, *self.parts) if part.intensity is not None and part.seconds]
        inner = [intensity for _, intensity in shown if intensity is not None]
        ridges = [self.roof.arithmetic / bandwidth for bandwidth in (self.roof.memory, self.roof.caches)]
        low, high = min([*inner, *ridges]) / 8, max([*inner, *ridges]) * 8
        plot = Plot(f"{self.name} on {self.platform}", Axis("operations per byte", True), Axis("GFLOP/s", True))
        for what, bandwidth, ridge in zip(("memory", "caches"), (self.roof.memory, self.roof.caches), ridges, strict=True):
            line = [(x, self.roof.roof(bandwidth, x) / 1e9) for x in (low, ridge, high)]
            legend = f"{what}: {bandwidth / 1e9:.1f} GB/s, {self.roof.arithmetic / 1e9:.0f} GFLOP/s ({self.roof.dtype})"
            plot.series.append(Series(legend, line, dashed=True))
        for part, intensity in shown:
            assert intensity is not None and part.operations is not None
            plot.series.append(Series(part.name, [(intensity, part.operations / part.seconds / 1e9)], line=False))
        return plot.svg()

    def as_json(self) -> dict[str, object]:
        """For programs that read it."""
        parts = [
            {"name": part.name, "seconds": part.seconds, "runs": part.calls, "operations": part.operations, "bytes": part.bytes, "bound": part.bound(self.roof)}
            for part in (self.whole, *self.parts)
        ]
        passes = [list(row) for row in self.passes]
        return {"name": self.name, "platform": self.platform, "whole": parts[0], "regions": parts[1:], "passes": passes, "limits": asdict(self.roof)}

    def __str__(self) -> str:
        return f"{self.name} on {self.platform}\n{table(self.cells())}\n\n{table(self.compile_cells())}"

    def _repr_html_(self) -> str:
        return self.svg() + html_table(self.cells(), f"{self.name} on {self.platform}") + html_table(self.compile_cells())


def profile(name: str, program: Program, call: BoundCall, config: RunConfig, rounds: int) -> Profile:
    """Time a call, and its program once more with a clock around every region."""
    last: list[Program] = []
    watch = CallbackInstrument(after_pass=lambda _, after: last.append(after))
    with clock.measured() as times, PassContext([watch]):
        timed = compile_program(program, config, profile=True)
    entry = timed.only("profile")
    seconds = statistics.median(call.times(rounds, 2)) * 1e-6
    whole = Part("whole call", seconds, 1, call.operations, call.bytes)
    functions = last[-1].functions
    found = call.with_entry(entry).region_times(list(functions), rounds)
    parts = [_part(last[-1], region, *spent, call.extents) for region, spent in found.items()]
    like = call.first_array
    dtype = max((param.dtype for param in entry.signature.params if param.is_tensor), key=lambda dtype: (dtype.is_float, dtype.bits))
    return Profile(name, timed.platform, whole, tuple(parts), tuple(times), limits(like, timed.platform, dtype, config.num_threads))


def _part(program: Program, name: str, seconds: float, calls: int, extents: Mapping[str, int]) -> Part:
    """A region with what the program counts in it: its operations, and the cells of the tensors it is given, each once in a call however often it runs."""
    function = program.functions[name]
    terms = cost.cost_of(program, name).terms
    blocks = _blocks(program, name)
    operations = None if terms is None or blocks is None else _summed(terms, extents)
    touched = [_size(type, extents) for value in function.body.block.args if isinstance(type := d.type_of(value), ShapedType)]
    known = [size for size in touched if size is not None]
    work = None if operations is None or blocks is None else operations * blocks * calls
    return Part(name, seconds, calls, work, sum(known) if len(known) == len(touched) else None)


def _blocks(program: Program, name: str) -> int | None:
    """How many blocks a launch of a region has; None: only the run knows."""
    for op in program.module.walk():
        if isinstance(op, d.LaunchOp) and op.callee.data == name and op.blocks is not None:
            found = constant_of(op.blocks)
            return found if isinstance(found, int) else None
    return 1


def _summed(terms: Sequence[tuple[int, tuple[str, ...]]], extents: Mapping[str, int]) -> int | None:
    if any(symbol not in extents for _, symbols in terms for symbol in symbols):
        return None
    return sum(count * prod(extents[symbol] for symbol in symbols) for count, symbols in terms)


def _size(type: ShapedType, extents: Mapping[str, int]) -> int | None:
    shape = [extents.get(dim) if isinstance(dim, str) else dim for dim in type.shape]
    return None if None in shape else prod(dim for dim in shape if dim is not None) * type.dtype.get_byte()

