"""Compiles benches for both backends, runs them for several sizes, and names the uses that differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.differential.build import Bench, tolerance
from tests.differential.plans import Use
from tests.differential.shapes import SIZES
from tests.hardware import PLATFORM, prepare
from tilejit.compiler import compile_program
from tilejit.dtypes import COMPLEX64
from tilejit.errors import TilejitError
from tilejit.runtime.config import RunConfig
from tilejit.types.values import BufferType

BATCH = 12
"""Uses per program: enough to share the cost of a compile."""


@dataclass(frozen=True)
class Difference:
    """A use on which the backends disagree, or which failed."""

    use: Use
    message: str

    def __str__(self) -> str:
        return f"{self.use}: {self.message}"


def batches(found: Sequence[Use]) -> Iterator[list[Use]]:
    """Uses of one level and dtype together."""
    groups: dict[tuple[str, str], list[Use]] = {}
    for use in found:
        groups.setdefault((use.level, use.dtype.name), []).append(use)
    for group in groups.values():
        for start in range(0, len(group), BATCH):
            yield group[start : start + BATCH]


def check(batch: Sequence[Use], seed: int = 0, sizes: Sequence[dict[str, int]] = SIZES) -> list[Difference]:
    """The differences in a batch; a batch that fails as a whole is taken apart."""
    try:
        return _check(batch, seed, sizes)
    except Exception as error:
        if len(batch) > 1:
            return [difference for use in batch for difference in check([use], seed, sizes)]
        text = error.message if isinstance(error, TilejitError) else str(error)
        return [Difference(batch[0], f"{type(error).__name__}: {text}")]


def _check(batch: Sequence[Use], seed: int, tried: Sequence[dict[str, int]]) -> list[Difference]:
    prepare()
    bench = Bench(batch)
    program = bench.program()
    compiled = {platform: compile_program(program, RunConfig(platform=platform)) for platform in ("reference", PLATFORM)}
    found: dict[str, Difference] = {}
    for number, sizes in enumerate(tried):
        given = bench.arguments(seed * 100 + number, sizes)
        results = {platform: _run(run, given) for platform, run in compiled.items()}
        for name, use in bench.outputs.items():
            if name not in found:
                message = _compare(bench, name, use, given, results, sizes)
                if message:
                    found[name] = Difference(use, message)
    return list(found.values())


def _run(compiled: Any, given: list[Any]) -> list[Any]:
    copies = [value.copy() if isinstance(value, np.ndarray) else value for value in given]
    compiled(*copies)
    return copies


def _compare(bench: Bench, name: str, use: Use, given: list[Any], results: dict[str, list[Any]], sizes: dict[str, int]) -> str | None:
    position = next(i for i, param in enumerate(bench.params) if param.name == name)
    type = bench.params[position].type
    assert isinstance(type, BufferType)
    expected, actual = (results[platform][position] for platform in ("reference", PLATFORM))
    if COMPLEX64 in (use.dtype, type.dtype):
        with np.errstate(invalid="ignore", over="ignore"):
            largest = np.abs(expected).max(initial=1, where=np.isfinite(expected))
            wrong = np.isfinite(expected) & ~(np.abs(expected - actual) <= 2e-5 * largest)
    elif type.dtype.is_float:
        prefix = name.replace("out", "x").rpartition("_")[0] + "_"
        inputs = {p.name: value for p, value in zip(bench.params, given, strict=True) if p.name.startswith(prefix)}
        a, b = expected.astype(np.float64), actual.astype(np.float64)
        with np.errstate(invalid="ignore"):
            wrong = ~((np.abs(a - b) <= tolerance(use, type.dtype, inputs, expected)) | (a == b) | (np.isnan(a) & np.isnan(b)))
    else:
        wrong = expected != actual
    if not wrong.any():
        return None
    cell = tuple(int(i) for i in np.argwhere(wrong)[0])
    shown = {
        n.partition("_")[2]: _cell(value, cell)
        for n, value in zip((p.name for p in bench.params), given, strict=True)
        if n.startswith(name.replace("out", "x").rpartition("_")[0] + "_")
    }
    both = f"reference {expected[cell]!r} {PLATFORM} {actual[cell]!r}"
    return f"cell {list(cell)} {both}, {int(wrong.sum())} of {wrong.size} cells, sizes {sizes}, operands {shown}"


def _cell(value: Any, cell: tuple[int, ...]) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.ndim != len(cell):
        return f"{value.shape}"
    return value[tuple(min(i, n - 1) for i, n in zip(cell, value.shape, strict=True))]
