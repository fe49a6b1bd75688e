"""Autotuning the matrix product of tiles: a quick search against an exhaustive one, in time and in what it finds."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from measure import Count, Pair, Target

import tilejit.language as pl
from tilejit.jit.tune.function import Autotuned
from tilejit.jit.tune.space import Choice
from tilejit.jit.tune.trial import Call, KernelTrials

SPACE = {"bm": [16, 32, 64, 128], "bn": [16, 32, 64, 128], "bk": [16, 32, 64, 128]}
SAMPLES = 9
"""How often the exhaustive search times every candidate: as often as the other one times those that the winner comes from."""


def product(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor], bm: int = 32, bn: int = 32, bk: int = 32):
    for i in pl.parallel(a.shape[0] // bm):
        for j in pl.range(b.shape[1] // bn):
            with pl.at(level=pl.Level.CORE_GROUP):
                acc = pl.tile.full([bm, bn], dtype=pl.FP32, value=0.0)
                for k in pl.range(a.shape[1] // bk):
                    acc = acc + pl.matmul(pl.load(a, [i * bm, k * bk], [bm, bk]), pl.load(b, [k * bk, j * bn], [bk, bn]))
                pl.store(acc, [i * bm, j * bn], c)


class Searches:
    """Both searches, each from nothing, and what they found last."""

    def __init__(self, size: int) -> None:
        rng = np.random.default_rng(size)
        self.a, self.b = (rng.standard_normal((size, size)).astype(np.float32) for _ in range(2))
        self.out = np.empty_like(self.a)
        self.quick_choice, self.best_choice = Choice(), Choice()
        self.compiled = 0

    def new(self) -> Autotuned:
        return pl.autotune(SPACE, progress=False)(pl.jit(product))

    def quick(self) -> float:
        kernel, start = self.new(), time.perf_counter()
        found = kernel.tune(self.a, self.b, self.out)
        self.quick_choice, self.compiled = found.best, found.compiled
        return time.perf_counter() - start

    def exhaustive(self) -> float:
        kernel, start = self.new(), time.perf_counter()
        trials = KernelTrials(kernel.variant, kernel.space, Call((self.a, self.b, self.out), {}), None, {})
        for point in kernel.space.points():
            trials.ensure(point, SAMPLES)
        self.best_choice = kernel.space[min(trials.timings, key=lambda point: trials.timings[point].median)]
        return time.perf_counter() - start

    def check(self) -> None:
        pl.jit(product)(self.a, self.b, self.out, **self.quick_choice.arguments)  # type: ignore[arg-type]
        np.testing.assert_allclose(self.out, self.a @ self.b, atol=1e-2)


def cases() -> Iterator[Pair | Count]:
    searches = Searches(512)
    case = "tile matmul 512"
    yield Pair(f"{case}: searching", "exhaustive search", searches.quick, searches.exhaustive, 1, True, searches.check, Target(1 / 3))
    kernel = pl.jit(product)

    def run(choice: Choice) -> None:
        kernel(searches.a, searches.b, searches.out, **choice.arguments)  # type: ignore[arg-type]

    yield Pair(f"{case}: what is found", "the best of all", lambda: run(searches.quick_choice), lambda: run(searches.best_choice), target=Target(1.03))
    yield Count(f"{case}: candidates compiled", f"of {len(searches.new().space)}", lambda: searches.compiled, 22)
