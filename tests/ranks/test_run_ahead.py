"""Regions that wait do not hold up those that follow, where the program says so."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
from tests.ranks.ahead import N, run_deferred, run_scoped
from tests.ranks.engines import PLATFORMS, on
from tilejit.errors import DeadlockError


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("run", [run_deferred, run_scoped], ids=["defer_wait", "manual_scope"])
def test_the_publisher_behind_the_waits_is_reached(run: pl.JITFunction, platform: str) -> None:
    for world in (1, 2, 3):
        y = np.zeros((world, 1, 1), np.int32)
        run(y, 1, config=on(world, platform))
        assert y.ravel().tolist() == [N] * world


@pytest.mark.parametrize("run", [run_deferred, run_scoped], ids=["defer_wait", "manual_scope"])
def test_without_a_publisher_it_is_a_deadlock(run: pl.JITFunction) -> None:
    with pytest.raises(DeadlockError) as caught:
        run(np.zeros((2, 1, 1), np.int32), 0, config=on(2))
    assert len(caught.value.where) == 2
