"""Random traffic between a cube and a vector kernel: any mixture of directions, ids, shapes, loops and splits is what NumPy says."""

from __future__ import annotations

import random
import textwrap
from dataclasses import dataclass

import numpy as np
import pytest

from tests.language.cross_core import Array, lowered, numbers, pair, read, run

SEEDS = range(12)


@dataclass(frozen=True)
class Event:
    """One tile on its way, on each trip of its loop."""

    to_vector: bool
    shape: tuple[int, int]
    number: int


@dataclass(frozen=True)
class Traffic:
    """What happens: loops of events. `form`: whole tiles, a split nobody needs, two lanes, or the lanes of pl.split_aiv."""

    form: str
    split: int
    loops: tuple[tuple[int, tuple[Event, ...]], ...]
    vector_first: bool

    @property
    def axis(self) -> int:
        return 0 if self.split in (1, 3) else 1

    @property
    def halves(self) -> bool:
        return self.form in ("lanes", "split_aiv")

    def piece(self, shape: tuple[int, int]) -> list[int]:
        """The shape on the vector side."""
        return [-(-extent // 2) if self.halves and axis == self.axis else extent for axis, extent in enumerate(shape)]

    def place(self, shape: tuple[int, int]) -> str:
        """Where the vector side keeps a tile."""
        if not self.halves:
            return "[0, 0]"
        half = self.piece(shape)[self.axis]
        return f"[lane * {half}, 0]" if self.axis == 0 else f"[0, lane * {half}]"

    # the program ----------------------------------------------------------------------------------------------------------

    def text(self) -> str:
        cube, vector = ["acc = pl.load(a, [0, 0], [16, 16])"], list[str]()
        for trips, events in self.loops:
            indent = ""
            if trips > 1:
                indent = "    "
                for side in (cube, vector):
                    side.append(f"for trip in pl.range({trips}):")
            for event in events:
                own, other = self._lines(event)
                cube += [indent + line for line in own]
                vector += [indent + line for line in other]
        cube.append("b = pl.store(acc, [0, 0], b)")
        if self.form == "lanes":
            vector.insert(0, "lane = pl.tile.get_subblock_idx()")
        elif self.form == "split_aiv":
            mode = "UP_DOWN" if self.axis == 0 else "LEFT_RIGHT"
            vector = [f"for lane in pl.split_aiv(2, mode=pl.SplitMode.{mode}):", *textwrap.indent("\n".join(vector), "    ").splitlines()]
        calls = ["self.aic(a, b, n)", "self.aiv(out, n)"]
        return pair("\n".join(cube), "\n".join(vector), "\n".join(calls[::-1] if self.vector_first else calls))

    def _lines(self, event: Event) -> tuple[list[str], list[str]]:
        """What the cube and the vector side do."""
        shape, piece, place = list(event.shape), self.piece(event.shape), self.place(event.shape)
        fifo = f"split={self.split}, id={event.number % 3 + 3 * hash(event.shape) % 1000}"
        if event.to_vector:
            narrowed = ", pl.TileView(valid_shape=[n, n])" if self.halves and self.split > 2 else ""
            return (
                [f"pl.tpush_to_aiv(pl.slice(acc, {shape}, [0, 0]), {fifo})", f"acc = pl.add(acc, {event.number}.0)"],
                [
                    f"t: pl.Tile[{piece}, pl.FP32{narrowed}] = pl.tpop_from_aic({fifo})",
                    f"out = pl.store(pl.add(pl.mul(pl.load(out, {place}, {piece}), 0.5), t), {place}, out)",
                    "pl.tfree_to_aic(t)",
                ],
            )
        return (
            [f"p = pl.tpop_from_aiv(shape={shape}, dtype=pl.FP32, {fifo})", "acc = pl.tile.assemble(acc, pl.mul(p, 0.25), [0, 0])"],
            [f"pl.tpush_to_aic(pl.add(pl.load(out, {place}, {piece}), {event.number}.0), {fifo})"],
        )

    # the meaning ----------------------------------------------------------------------------------------------------------

    def expected(self, a: Array, out: Array) -> tuple[Array, Array]:
        acc, kept = a.copy(), out.copy()
        for trips, events in self.loops:
            for event in events * trips:
                box = tuple(slice(extent) for extent in event.shape)
                if event.to_vector:
                    kept[box] = kept[box] * np.float32(0.5) + acc[box]
                    acc = acc + np.float32(event.number)
                else:
                    acc[box] = (kept[box] + np.float32(event.number)) * np.float32(0.25)
        return acc, kept


def traffic(seed: int) -> Traffic:
    rng = random.Random(seed)
    form = ("whole", "inert", "lanes", "split_aiv")[seed % 4]
    split = 0 if form == "whole" else rng.choice([1, 2, 3, 4])

    def shape() -> tuple[int, int]:
        return rng.randint(1, 6) * 2, rng.randint(1, 6) * 2

    one = shape()
    if split > 2:  # The first half may be the larger one.
        one = (one[0] + 1 if split == 3 else one[0], one[1] + 1 if split == 4 else one[1])
    loops = []
    for _ in range(rng.randint(1, 3)):
        events = [Event(rng.random() < 0.5, one if form in ("lanes", "split_aiv") else shape(), rng.randint(1, 9)) for _ in range(rng.randint(1, 4))]
        loops.append((rng.randint(1, 4), tuple(events)))
    return Traffic(form, split, tuple(loops), rng.random() < 0.5)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_traffic_arrives(seed: int) -> None:
    found = traffic(seed)
    program = read(found.text())
    lowered(program)
    a, out = numbers(16, 16, seed=seed), numbers(16, 16, seed=seed + 100)
    _, b, kept = run(program, a, np.zeros_like(a), out, 8)
    acc, expected = found.expected(a, out)
    np.testing.assert_allclose(b, acc, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(kept, expected, rtol=1e-4, atol=1e-4)
