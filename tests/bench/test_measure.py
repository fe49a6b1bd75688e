"""What a benchmark row means."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="module")
def measure() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_measure", BENCH / "measure.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_measure"] = module
    spec.loader.exec_module(module)
    return module


def test_the_ratio_is_the_peers_time_over_ours(measure: ModuleType) -> None:
    row = measure.measure(measure.Pair("sleep", "a slower one", lambda: time.sleep(0.002), lambda: time.sleep(0.008), samples=5))
    assert 2 < row.ratio < 6
    assert row.ours_us < row.peer_us


def test_a_pair_that_disagrees_is_not_timed(measure: ModuleType) -> None:
    def disagree() -> None:
        raise AssertionError("different results")

    with pytest.raises(AssertionError, match="different results"):
        measure.measure(measure.Pair("x", "y", lambda: None, lambda: None, check=disagree))


def test_a_target_is_met_by_ratio_and_by_time(measure: ModuleType) -> None:
    target = measure.Target(0.5, 10)
    assert target.met(9.0, 20.0) and not target.met(11.0, 40.0) and not target.met(9.0, 17.0)
    row = measure.measure(measure.Pair("sleep", "a slower one", lambda: time.sleep(0.001), lambda: time.sleep(0.008), samples=3, target=measure.Target(0.9)))
    assert row.met is True and row.target == "≤ 0.9 × peer"


def test_a_count_above_its_limit_is_not_met(measure: ModuleType) -> None:
    row = measure.count(measure.Count("calls", "adaptors", lambda: 3))
    assert (row.count, row.target, row.met) == (3, "0", False)
