"""What memory bounds on the CPU: sums of long arrays, transposes and sums of columns; and our threads beside torch's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from measure import Pair, Target

import tilejit.language as pl
from tilejit import RunConfig

TURNS = 50


@pl.jit
def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a + b


@pl.jit
def turned(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.transpose(x, 0, 1)


@pl.jit
def columns(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.col_sum(x)


@pl.jit
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        out[:] = pl.row_expand_div(e, pl.row_sum(e))


def same(ours: torch.Tensor, theirs: torch.Tensor) -> Callable[[], None]:
    return lambda: torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3)


def sums() -> Iterator[Pair]:
    """Of long arrays: against torch, and against a copy of as many bytes as are read and written."""
    x, y, z = (np.random.default_rng(i).standard_normal((64, 1024), np.float32) for i in range(3))
    yield Pair("add of 64k elements", "np.add(out=)", lambda: add(x, y, z), lambda: np.add(x, y, out=z), check=lambda: np.testing.assert_array_equal(z, x + y), target=Target(1.0))
    for rows, name in ((1024, "1 M"), (8192, "8 M"), (65536, "67 M")):
        a, b, out, kept = (torch.randn(rows, 1024) for _ in range(4))
        yield Pair(f"add of {name} elements", "torch.add(out=)", lambda: add(a, b, out), lambda: torch.add(a, b, out=kept), check=same(out, kept), target=Target(1.0))
        # A sum moves three arrays, a copy of the first half again as long moves as many bytes.
        half, to = torch.randn(rows * 3 // 2, 1024), torch.empty(rows * 3 // 2, 1024)
        yield Pair(f"add of {name} elements", "torch copy of as many bytes", lambda: add(a, b, out), lambda: to.copy_(half), target=Target(1 / 0.9))


def transposes(threads: int) -> Iterator[Pair]:
    x, out, kept = (torch.randn(4096, 4096) for _ in range(3))
    yield Pair("transpose 4096x4096", "torch copy of x.T", lambda: turned(x, out), lambda: kept.copy_(x.T), check=same(out, kept))
    if threads > 1:
        compiled, one = turned.compile(x, out), RunConfig(num_threads=1)
        yield Pair(f"transpose 4096x4096, {threads} threads", "one thread", lambda: compiled(x, out), lambda: compiled(x, kept, config=one), check=same(out, kept), target=Target(2 / threads))


def column_sums() -> Iterator[Pair]:
    for rows, width in ((1000, 1001), (4096, 4096)):
        x, out, kept = torch.randn(rows, width), torch.empty(1, width), torch.empty(1, width)
        yield Pair(f"column sums {rows}x{width}", "torch.sum(out=)", lambda x=x, out=out: columns(x, out), lambda x=x, kept=kept: torch.sum(x, 0, keepdim=True, out=kept), check=same(out, kept), target=Target(1.0))


def in_turns() -> Iterator[Pair]:
    """Our softmax and torch's in turns, against the two alone, one after the other."""
    x, out, kept = (torch.randn(512, 1024) for _ in range(3))

    def ours() -> None:
        softmax(x, out)

    def theirs() -> None:
        torch.softmax(x, 1, out=kept)

    def timed(*calls: Callable[[], None]) -> float:
        time.sleep(0.01)
        start = time.perf_counter()
        for _ in range(TURNS):
            for call in calls:
                call()
        return (time.perf_counter() - start) / TURNS

    yield Pair("softmax 512x1024, ours and torch's in turns", "the sum of both alone", lambda: timed(ours, theirs), lambda: timed(ours) + timed(theirs), self_timed=True, check=same(out, kept), target=Target(1.3))


def cases(threads: int) -> Iterator[Pair]:
    torch.manual_seed(0)
    yield from sums()
    yield from transposes(threads)
    yield from column_sums()
    if threads > 1:
        yield from in_turns()
