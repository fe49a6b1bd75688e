"""Kernels to tune and the clock that they are tuned by, in a module that other processes can import too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

import tilejit.language as pl
from tilejit.jit.disk.kernels import entries
from tilejit.jit.disk.stores import store
from tilejit.jit.function import JITFunction
from tilejit.jit.tune.function import Autotuned
from tilejit.jit.tune.space import Choice
from tilejit.runtime.store.entry import CacheEntry

ROWS, COLUMNS = 24, 40
SECONDS = {2: 8.0, 4: 5.0, 6: 2.0, 8: 3.0, 12: 9.0, 24: 7.0}
"""What the timer of the tests says of a candidate, by its number of rows."""


@pl.jit
def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor], rows: int = 4, wrong: bool = False):
    assert x.shape[0] % rows == 0
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(x.shape[0] // rows):
            tile = pl.load(x, [i * rows, 0], [rows, x.shape[1]])
            pl.store(pl.mul(tile, 3.0 if wrong else 2.0), [i * rows, 0], out)


@pl.jit
def counted(total: pl.InOut[pl.Tensor], x: pl.Tensor, rows: int = 4):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(x.shape[0] // rows):
            tile = pl.load(x, [i * rows, 0], [rows, x.shape[1]])
            pl.store(pl.add(pl.load(total, [i * rows, 0], [rows, x.shape[1]]), tile), [i * rows, 0], total)


@pl.jit
def lazy(x: pl.Tensor, out: pl.Out[pl.Tensor], rows: int = 4, skipped: int = 0):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(x.shape[0] // rows - skipped):
            pl.store(pl.load(x, [i * rows, 0], [rows, x.shape[1]]) * 2.0, [i * rows, 0], out)


@pl.jit
def whole(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.exp(x) * 2.0


def data(rows: int = ROWS, columns: int = COLUMNS) -> np.ndarray:
    return np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)


def choices() -> list[CacheEntry]:
    return [entry for entry in entries() if str(entry.fields["kernel"]).startswith("tuning of ")]


def forget() -> None:
    for entry in choices():
        store().remove(entry.key)


class Clock:
    """Says what a candidate takes, and remembers what was asked; every candidate really runs."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.asked: list[str] = []
        self.stop_after = stop_after

    def __call__(self, choice: Choice, run: Callable[[], None]) -> float:
        if self.stop_after is not None and len(self.asked) >= self.stop_after:
            raise KeyboardInterrupt
        self.asked.append(str(choice))
        run()
        return SECONDS[cast("int", choice.arguments.get("rows", 4))]


def tuned(kernel: JITFunction = scaled, configs: object = None, **options: Any) -> tuple[Autotuned, Clock]:
    clock = Clock()
    chosen: dict[str, Any] = {"timer": clock, "progress": False, **options}
    return pl.autotune({"rows": list(SECONDS)} if configs is None else configs, **chosen)(kernel), clock
