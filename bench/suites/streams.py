"""What memory bounds on the CPU: sums of long arrays, transposes and sums of columns; and our threads beside torch's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch
from measure import REST, Pair, Target

import tilejit.language as pl
from suites.kernels import add, softmax
from tilejit import RunConfig

TURNS = 50


@pl.jit
def turned(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.transpose(x, 0, 1)


@pl.jit
def columns(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.col_sum(x)


def pair(case: str, peer: str, ours: Callable[[], object], theirs: Callable[[], object], results: tuple[torch.Tensor, torch.Tensor], of_peer: float) -> Pair:
    """The two results are compared before the two are timed."""

    def check() -> None:
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-3)

    return Pair(case, peer, ours, theirs, check=check, target=Target(of_peer))


def into_one(case: str, peer: str, ours: Callable[[], object], theirs: Callable[[], object], out: torch.Tensor) -> Pair:
    """The same for two that write the same array: which pages of memory one has, and so what is in the way of what in the caches, is chance."""

    def check() -> None:
        ours()
        found = out.clone()
        out.zero_()
        theirs()
        torch.testing.assert_close(found, out, rtol=1e-4, atol=1e-3)

    return Pair(case, peer, ours, theirs, check=check, target=Target(1.0))


def sums(rows: int, name: str) -> Iterator[Pair]:
    """Of long arrays: against torch, and against a copy of half again as many elements, which moves as many bytes."""
    a, b, out = (torch.randn(rows, 1024) for _ in range(3))
    more = torch.cat([a, b[: rows // 2]])
    to = torch.zeros_like(more)
    yield into_one(f"add of {name} elements", "torch.add(out=)", lambda: add(a, b, out), lambda: torch.add(a, b, out=out), out)
    yield pair(f"add of {name} elements", "torch copy of as many bytes", lambda: add(a, b, out), lambda: to.copy_(more), (to, more), 1 / 0.9)


def short_sum() -> Pair:
    x, y, z = (np.random.default_rng(i).standard_normal((64, 1024), np.float32) for i in range(3))
    return into_one("add of 64k elements", "np.add(out=)", lambda: add(x, y, z), lambda: np.add(x, y, out=z), torch.from_numpy(z))


def transposes(threads: int) -> Iterator[Pair]:
    x, out, kept = (torch.randn(4096, 4096) for _ in range(3))
    yield pair("transpose 4096x4096", "torch copy of x.T", lambda: turned(x, out), lambda: kept.copy_(x.T), (out, kept), 1.0)
    if threads > 1:
        compiled, one = turned.compile(x, out), RunConfig(num_threads=1)
        calls = (lambda: compiled(x, out), lambda: compiled(x, kept, config=one))
        yield pair(f"transpose 4096x4096, {threads} threads", "one thread", *calls, (out, kept), 2 / threads)


def column_sums(rows: int, width: int) -> Pair:
    x, out, kept = torch.randn(rows, width), torch.empty(1, width), torch.empty(1, width)
    calls = (lambda: columns(x, out), lambda: torch.sum(x, 0, keepdim=True, out=kept))
    return pair(f"column sums {rows}x{width}", "torch.sum(out=)", *calls, (out, kept), 1.0)


def in_turns() -> Pair:
    """Our softmax and torch's in turns, against the two alone, one after the other."""
    x, out, kept = (torch.randn(512, 1024) for _ in range(3))

    def ours() -> None:
        softmax(x, out)

    def theirs() -> None:
        torch.softmax(x, 1, out=kept)

    def timed(*calls: Callable[[], None]) -> float:
        time.sleep(REST)
        start = time.perf_counter()
        for _ in range(TURNS):
            for call in calls:
                call()
        return (time.perf_counter() - start) / TURNS

    calls = (lambda: timed(ours, theirs), lambda: timed(ours) + timed(theirs))
    row = pair("softmax 512x1024, ours and torch's in turns", "the sum of both alone", *calls, (out, kept), 1.3)
    return replace(row, self_timed=True)


def cases(threads: int) -> Iterator[Pair]:
    torch.manual_seed(0)
    yield short_sum()
    for rows, name in ((1024, "1 M"), (8192, "8 M"), (65536, "67 M")):
        yield from sums(rows, name)
    yield from transposes(threads)
    yield column_sums(1000, 1001)
    yield column_sums(4096, 4096)
    if threads > 1:
        yield in_turns()
