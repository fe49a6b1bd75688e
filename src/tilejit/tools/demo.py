"""`tilejit demo`: run every example kernel, check it against NumPy in double precision and time it against NumPy."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from tilejit.tools.output import as_json

Array = np.ndarray[tuple[int, ...], np.dtype[np.floating]]

TOLERANCE = 2e-6
"""Largest accepted error of a float32 kernel, relative to the largest value of the result: about 16 units in the last place."""
SECONDS_PER_TIMING = 0.15


class Kernel(Protocol):
    """What the demo needs of a jit function."""

    @property
    def _cache(self) -> dict[object, object]: ...
    def __call__(self, *args: object) -> object: ...
    def compile(self, *args: object) -> object: ...


@dataclass(frozen=True, slots=True)
class Example:
    """An example file: the kernel named like the file, its NumPy `reference` and `inputs(rng)`, the argument tuples to try."""

    name: str
    kernel: Kernel
    reference: Callable[..., Array]
    inputs: Callable[[np.random.Generator], Iterator[tuple[object, ...]]]


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel with one set of arguments, the output last."""

    example: Example
    args: tuple[object, ...]
    out: Array
    exact: Array

    @property
    def shapes(self) -> str:
        """The matrices among the arguments, each shape once."""
        found = ["×".join(map(str, a.shape)) for a in self.args if isinstance(a, np.ndarray) and a.ndim > 1]
        return ", ".join(list(dict.fromkeys(found))[:2])

    def call(self) -> None:
        self.example.kernel(*self.args, self.out)

    def error(self) -> float:
        """Largest deviation from the exact result, relative to its largest value; NaN if a cell was not written."""
        return float(np.max(np.abs(self.out.astype(np.float64) - self.exact)) / np.max(np.abs(self.exact)))


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    kernel: str
    shapes: str
    error: float
    against_numpy: float
    compile_ms: float | None
    """None: an earlier compile served."""
    call_us: float

    @property
    def right(self) -> bool:
        return self.error <= TOLERANCE


def load_example(path: Path) -> Example:
    """The example in the file `path`."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # inspect finds the source of a kernel through its module
    spec.loader.exec_module(module)
    return Example(path.stem, getattr(module, path.stem), module.reference, module.inputs)


def cases(example: Example, seed: int = 0) -> Iterator[Case]:
    """The cases of an example, their outputs filled with what no kernel leaves there."""
    for args in example.inputs(np.random.default_rng(seed)):
        exact = example.reference(*(_in_double(arg) for arg in args))
        yield Case(example, args, np.full(exact.shape, np.nan, np.float32), exact)


def _in_double(arg: object) -> object:
    if isinstance(arg, np.ndarray) and arg.dtype == np.float32:
        return arg.astype(np.float64)
    return arg


def measure(case: Case) -> Row:
    """Compile, check and time one case."""
    kernel = case.example.kernel
    compiled_before = len(kernel._cache)
    start = time.perf_counter()
    kernel.compile(*case.args, case.out)
    compile_ms = (time.perf_counter() - start) * 1e3 if len(kernel._cache) > compiled_before else None
    case.call()
    error = case.error()
    ours, numpys = interleaved(case.call, lambda: case.example.reference(*case.args))
    return Row(case.example.name, case.shapes, error, numpys / ours, compile_ms, ours * 1e6)


def interleaved(first: Callable[[], object], second: Callable[[], object]) -> tuple[float, float]:
    """Median seconds of two functions, timed in turns so that both see the same machine."""
    times: tuple[list[float], list[float]] = ([], [])
    deadline = time.perf_counter() + SECONDS_PER_TIMING
    while len(times[0]) < 5 or (time.perf_counter() < deadline and len(times[0]) < 1000):
        for function, seconds in zip((first, second), times, strict=True):
            start = time.perf_counter()
            function()
            seconds.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


# ----------------------------------------------------------------------------------------------------------------------
# the table

COLUMNS = (("kernel", 20), ("shape", 20), ("max error", 10), ("vs NumPy", 9), ("compile ms", 11), ("call µs", 10))
"""Heading and width of each column; the first two are text, the others numbers."""


class Screen:
    """Prints rows as they come, with a progress line below them on a terminal."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.live = sys.stdout.isatty() and not quiet
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # × and µ on a terminal that has no such letters
        self.colour = self.live and "NO_COLOR" not in os.environ

    def progress(self, text: str) -> None:
        if self.live:
            print(f"\r\x1b[K{text}", end="", flush=True)

    def line(self, text: str, code: str = "") -> None:
        self.progress("")
        if not self.quiet:
            print(f"\x1b[{code}m{text}\x1b[0m" if code and self.colour else text, flush=True)

    def cells(self, values: Sequence[str], code: str = "") -> None:
        padded = (v.ljust(w) if i < 2 else v.rjust(w) for i, (v, (_, w)) in enumerate(zip(values, COLUMNS, strict=True)))
        self.line(" ".join(padded).rstrip(), code)

    def row(self, row: Row) -> None:
        compile_ms = "reused" if row.compile_ms is None else f"{row.compile_ms:.1f}"
        values = (row.kernel, row.shapes, f"{row.error:.1e}", f"{row.against_numpy:.2f} ×", compile_ms, f"{row.call_us:.1f}")
        self.cells(values, "" if row.right else "1;31")


def examples_folder() -> Path:
    """Where the examples are: beside the sources, or, once installed, in the package."""
    package = Path(__file__).resolve().parents[1]
    return next((folder for folder in (package / "examples", package.parents[1] / "examples") if folder.is_dir()), package / "examples")


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    parser.add_argument("--examples", type=Path, default=examples_folder(), metavar="DIR", help="folder of the example files (default: those of tilejit)")
    parser.add_argument("names", nargs="*", metavar="KERNEL", help="only these examples")


def run(options: argparse.Namespace) -> int:
    """Run the demo; 0 when every kernel is right."""
    folder, names = cast(Path, options.examples), cast("list[str]", options.names)
    paths = [path for path in sorted(folder.glob("*.py")) if not names or path.stem in names]
    if not paths:
        print(f"tilejit demo: no examples in {folder}", file=sys.stderr)
        return 2
    screen = Screen(quiet=options.json)
    started = time.perf_counter()
    screen.progress("loading the compiler …")
    examples = [load_example(path) for path in paths]
    load_compiler(examples[0])
    screen.cells([heading for heading, _ in COLUMNS], "1")
    rows: list[Row] = []
    failures: list[tuple[str, Exception]] = []
    for number, example in enumerate(examples, 1):
        try:
            for case in cases(example):
                screen.progress(f"[{number}/{len(examples)}] {example.name} {case.shapes} …")
                rows.append(measure(case))
                screen.row(rows[-1])
        except Exception as error:  # the table goes on; the failure is shown below it and in the exit status
            failures.append((example.name, error))
            screen.line(f"{example.name:<20} failed: {type(error).__name__}", "1;31")
    if options.json:
        broken = {name: f"{type(error).__name__}: {error}" for name, error in failures}
        print(as_json({"cases": [{**asdict(row), "right": row.right} for row in rows], "failed": broken}))
    return summary(screen, rows, failures, time.perf_counter() - started)


def load_compiler(example: Example) -> None:
    """Import what the first compile imports, so that the first row of the table shows compiling alone."""
    with contextlib.suppress(Exception):  # a broken example is reported in its turn
        for case in cases(example, seed=1):
            case.example.kernel.compile(*case.args, case.out)
    example.kernel._cache.clear()


def summary(screen: Screen, rows: Sequence[Row], failures: Sequence[tuple[str, Exception]], seconds: float) -> int:
    """The last lines, and the exit status."""
    wrong = [row for row in rows if not row.right]
    for name, error in failures:
        screen.line(f"\n{name}: {type(error).__name__}: {error}")
    for row in wrong:
        screen.line(f"{row.kernel} on {row.shapes}: error {row.error:.1e} is above {TOLERANCE:.0e}", "1;31")
    bad = len(wrong) + len(failures)
    compiled = sum(row.compile_ms is not None for row in rows)
    screen.line(f"\n{len(rows)} cases, {compiled} compiles, {bad} wrong, {seconds:.1f} s")
    screen.line("max error: against NumPy in double precision, relative to the largest value of the result")
    screen.line("vs NumPy: NumPy's time / ours, above 1 is faster, one thread each")
    return 1 if bad else 0
