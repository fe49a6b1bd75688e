"""Random programs of ranks do what their order does when one runs it alone; without one of their notifies they end in a deadlock, never in a hang."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.ranks import tables
from tests.ranks.engines import on
from tilejit.errors import DeadlockError


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + 50):
        tables.check(seed, on)


def test_random_programs_on_the_reference() -> None:
    for seed in range(1000, 1006):
        tables.check(seed, lambda world: on(world, "reference"))


def test_a_notify_that_is_missing_is_a_deadlock() -> None:
    found = 0
    for seed in range(40):
        made = tables.table(Random(seed))
        if not made.edges:
            continue
        found += 1
        own = np.zeros((made.world, 1, tables.CELLS), np.int32)
        with pytest.raises(DeadlockError):
            tables.run(made.steps(without=Random(seed).randrange(len(made.edges))), own, np.empty_like(own), config=on(made.world))
    assert found > 20
