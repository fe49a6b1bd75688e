"""Random programs of puts, gets, notifies and waits: one kernel that runs a table of steps, tables from a random order, and the order run by NumPy."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

import tilejit.language as pl
import tilejit.language.distributed as pld

NR = pl.dynamic("NR")
L = pl.dynamic("L")
CELLS, SIGNALS = 48, 128
PUT, GET, ADD, KEEP, NOTIFY, WAIT = range(1, 7)


@pl.jit
def perform(
    steps: pl.Tensor[[L, 6], pl.INT32],
    own: pl.InOut[pl.Tensor[[1, CELLS], pl.INT32]],
    end: pl.Out[pl.Tensor[[1, CELLS], pl.INT32]],
    win: pld.DistributedTensor[[1, CELLS], pl.INT32],
    sig: pld.DistributedTensor[[SIGNALS], pl.INT32],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(pl.tensor.dim(steps, 0)):
            kind = pl.read(steps, [i, 0])
            peer = pl.read(steps, [i, 1])
            to = pl.cast(pl.read(steps, [i, 2]), pl.INDEX)
            start = pl.cast(pl.read(steps, [i, 3]), pl.INDEX)
            size = pl.cast(pl.read(steps, [i, 4]), pl.INDEX)
            value = pl.read(steps, [i, 5])
            if kind == PUT:
                pld.tensor.put(win, peer, own, [0, to], [0, start], [1, size])
            if kind == GET:
                pld.tensor.get(own, peer, win, [0, to], [0, start], [1, size])
            if kind == ADD:
                pl.write(own, [0, to], pl.read(own, [0, to]) + value)
            if kind == KEEP:
                pl.write(win, [0, to], pl.read(own, [0, start]))
            if kind == NOTIFY:
                pld.system.notify(sig, peer, [to], value, op=pld.NotifyOp.AtomicAdd)
            if kind == WAIT:
                pld.system.wait(sig, [to], value, cmp=pld.WaitCmp.Ge)
        end[:, :] = win


@pl.jit.host
def run(
    steps: pl.Tensor[[NR, L, 6], pl.INT32],
    own: pl.InOut[pl.Tensor[[NR, 1, CELLS], pl.INT32]],
    end: pl.Out[pl.Tensor[[NR, 1, CELLS], pl.INT32]],
):
    data = pld.alloc_window_buffer([1, CELLS], dtype=pl.INT32)
    cells = pld.alloc_window_buffer([SIGNALS], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        perform(steps[r], own[r], end[r], pld.window(data, [1, CELLS], dtype=pl.INT32), pld.window(cells, [SIGNALS], dtype=pl.INT32), device=r)


@dataclass
class Table:
    """A program: per rank its steps, in an order that nothing can upset; edges are what keeps it."""

    world: int
    order: list[tuple[int, int, int, int, int, int, int]] = field(default_factory=list[tuple[int, int, int, int, int, int, int]])
    """Rank, kind, peer, to, start, size, value."""
    edges: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Steps of different ranks of which the second must see the first."""

    def touched(self, step: tuple[int, ...]) -> tuple[int, range, bool] | None:
        """Whose window, which cells, and whether they are written."""
        rank, kind, peer, to, start, size, _ = step
        if kind == PUT:
            return peer, range(to, to + size), True
        if kind == GET:
            return peer, range(start, start + size), False
        return (rank, range(to, to + 1), True) if kind == KEEP else None

    def steps(self, without: int | None = None) -> Any:
        """The tables of all ranks; `without`: a notify that is left out."""
        rows: list[list[list[int]]] = [[] for _ in range(self.world)]
        for position, (rank, *step) in enumerate(self.order):
            rows[rank] += [[WAIT, 0, cell, 0, 0, 1] for cell, (_, second) in enumerate(self.edges) if second == position]
            rows[rank].append(list(step))
            for cell, (first, second) in enumerate(self.edges):
                if first == position and cell != without:
                    rows[rank].append([NOTIFY, self.order[second][0], cell, 0, 0, 1])
        longest = max(1, *(len(row) for row in rows))
        return np.array([row + [[0] * 6] * (longest - len(row)) for row in rows], np.int32)

    def expected(self, own: Any) -> tuple[Any, Any]:
        """What NumPy makes of the order."""
        own, win = own.copy(), np.zeros_like(own)
        for rank, kind, peer, to, start, size, value in self.order:
            if kind == PUT:
                win[peer, 0, to : to + size] = own[rank, 0, start : start + size]
            elif kind == GET:
                own[rank, 0, to : to + size] = win[peer, 0, start : start + size]
            elif kind == ADD:
                own[rank, 0, to] += value
            else:
                win[rank, 0, to] = own[rank, 0, start]
        return own, win


def table(random: Random) -> Table:
    """A random program over 2 to 4 ranks."""
    made = Table(random.randint(2, 4))
    for _ in range(random.randint(5, 30)):
        size = random.randint(0, 12)
        to, start = random.randint(0, CELLS - 13), random.randint(0, CELLS - 13)
        step = (random.randrange(made.world), random.choice((PUT, GET, ADD, KEEP)), random.randrange(made.world), to, start, size, random.randint(-9, 9))
        now = made.touched(step)
        for position, other in enumerate(made.order):
            before = made.touched(other)
            if now is None or before is None or other[0] == step[0] or before[0] != now[0] or not (before[2] or now[2]):
                continue
            if set(before[1]) & set(now[1]) and len(made.edges) < SIGNALS:
                made.edges.append((position, len(made.order)))
        if len(made.edges) >= SIGNALS:
            break
        made.order.append(step)
    return made


def check(seed: int, config: Any) -> None:
    """Run a random program, and compare it with NumPy."""
    made = table(Random(seed))
    own = np.random.default_rng(seed).integers(-99, 99, (made.world, 1, CELLS)).astype(np.int32)
    wanted, _ = made.expected(own)  # windows: others may still write when a rank ends
    end = np.empty_like(own)
    run(made.steps(), own, end, config=config(made.world))
    np.testing.assert_array_equal(own, wanted, err_msg=f"seed {seed}")
