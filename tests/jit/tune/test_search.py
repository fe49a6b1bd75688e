"""Spaces of candidates, and which of them a search tries."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from tilejit.jit.tune.search import Search, Timing
from tilejit.jit.tune.space import Axis, Choice, Point, Space


class Table:
    """Trials out of a table; candidates that are not in it are wrong."""

    def __init__(self, seconds: dict[Point, float], noise: Callable[[], float] = lambda: 1.0) -> None:
        self.seconds, self.noise, self.timings = seconds, noise, dict[Point, Timing]()
        self.tried: list[Point] = []

    def ensure(self, point: Point, samples: int) -> None:
        timing = self.timings.setdefault(point, Timing())
        if point not in self.seconds:
            timing.rejected = "wrong"
        while not timing.rejected and len(timing.seconds) < samples:
            timing.seconds.append(self.seconds[point] * self.noise())
            self.tried.append(point)


def grid(*sizes: int) -> Space:
    return Space(tuple(Axis(f"a{at}", tuple(Choice({f"a{at}": i}) for i in range(size))) for at, size in enumerate(sizes)))


def bowl(space: Space, low: Point) -> dict[Point, float]:
    return {point: 1.0 + sum((a - b) ** 2 for a, b in zip(point, low, strict=True)) for point in space.points()}


@pytest.mark.parametrize("low", [(0, 0, 0), (4, 2, 5), (2, 4, 1), (4, 4, 5)])
def test_a_quick_search_finds_the_best_of_a_bowl_with_a_part_of_its_candidates(low: Point) -> None:
    space = grid(5, 5, 6)
    for seed in range(3):
        table = Table(bowl(space, low))
        assert Search(space, table, lambda: False, seed).run("quick") == low
        assert len(table.timings) * 3 <= len(space)


def test_a_full_search_tries_all_candidates_and_stops_the_slow_ones_early() -> None:
    space = grid(4, 4)
    table = Table(bowl(space, (3, 1)))
    assert Search(space, table, lambda: False).run("full") == (3, 1)
    assert set(table.timings) == set(space.points())
    counts = {point: table.tried.count(point) for point in space.points()}
    assert counts[(0, 3)] == 1, "far from the best: timed once"
    assert counts[(3, 1)] == max(counts.values()) > 1


def test_the_same_seed_leads_the_same_way_and_another_one_another_way() -> None:
    space = grid(5, 5, 5)
    ways = {seed: [] for seed in (0, 0, 1, 2, 3)}
    for seed in (0, 0, 1, 2, 3):
        table = Table(bowl(space, (3, 1, 4)))
        Search(space, table, lambda: False, seed).run("quick")
        assert ways[seed] in ([], table.tried)
        ways[seed] = table.tried
    assert len({tuple(way) for way in ways.values()}) > 1


@pytest.mark.parametrize("effort", ["quick", "full"])
def test_a_search_that_knows_all_times_of_another_goes_the_same_way(effort: str) -> None:
    space = grid(4, 4, 4)
    for seed in range(20):
        noise = random.Random(seed)
        table = Table(bowl(space, (3, 1, 2)), partial(noise.uniform, 1.0, 1.2))
        best, tried = Search(space, table, lambda: False, seed).run(effort), len(table.tried)
        assert Search(space, table, lambda: False, seed).run(effort) == best and len(table.tried) == tried


def test_wrong_candidates_are_passed_over_even_if_all_that_the_search_starts_from_are() -> None:
    space = grid(3, 3)
    assert Search(space, Table({(2, 1): 3.0, (2, 2): 2.0}), lambda: False).run("quick") == (2, 2)
    assert Search(space, Table({}), lambda: False).run("quick") is None
    assert Search(space, Table({}), lambda: False).run("full") is None


def test_a_search_whose_time_is_over_keeps_the_best_so_far() -> None:
    space = grid(9)
    table = Table(bowl(space, (8,)))
    assert Search(space, table, lambda: len(table.timings) >= 4).run("full") == (3,)
