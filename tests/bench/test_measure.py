"""What a benchmark row means."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
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


class Clock:
    """A clock that only work moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def work(self, seconds: float) -> Callable[[], None]:
        def spend() -> None:
            self.now += seconds

        return spend


@pytest.fixture
def clock(measure: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(measure, "time", clock)
    return clock


@pytest.mark.parametrize("ours", [0.002, 3e-6], ids=["one call per sample", "many calls per sample"])
def test_the_ratio_is_the_peers_time_over_ours(measure: ModuleType, clock: Clock, ours: float) -> None:
    row = measure.measure(measure.Pair("work", "a slower one", clock.work(ours), clock.work(4 * ours), samples=5))
    assert row.ratio == pytest.approx(4)
    assert (row.ours_us, row.peer_us) == pytest.approx((ours * 1e6, 4e6 * ours))


def test_a_function_that_times_itself_is_believed(measure: ModuleType, clock: Clock) -> None:
    times = iter([9.0, 3.0, 2.0, 4.0])  # the first call is not counted
    row = measure.measure(measure.Pair("work", "a slower one", lambda: next(times), lambda: 6.0, samples=3, self_timed=True))
    assert (row.ratio, row.ours_us, clock.now) == (2.0, 3e6, 0.0)


def test_a_machine_that_becomes_slower_counts_for_both_sides(measure: ModuleType) -> None:
    ours, theirs = iter([9.0, 1.0, 1.0, 4.0, 4.0, 4.0]), iter([9.0, 2.0, 2.0, 2.0, 8.0, 8.0])  # the first call of each is not counted
    row = measure.measure(measure.Pair("work", "a slower one", lambda: next(ours), lambda: next(theirs), samples=5, self_timed=True))
    assert (row.ratio, row.ours_us, row.peer_us) == (2.0, 4e6, 2e6)


def test_a_pair_that_disagrees_is_not_timed(measure: ModuleType) -> None:
    def disagree() -> None:
        raise AssertionError("different results")

    with pytest.raises(AssertionError, match="different results"):
        measure.measure(measure.Pair("x", "y", lambda: None, lambda: None, check=disagree))


def test_a_target_is_met_by_ratio_and_by_time(measure: ModuleType, clock: Clock) -> None:
    target = measure.Target(0.5, 10)
    assert target.met(2.2, 9.0) and not target.met(4.0, 11.0) and not target.met(1.9, 9.0)
    for seconds, met in ((0.001, True), (0.0079, False)):
        row = measure.measure(measure.Pair("work", "a slower one", clock.work(seconds), clock.work(0.008), samples=3, target=measure.Target(0.9)))
        assert row.met is met and row.target == "≤ 0.9 × peer"


def test_a_count_above_its_limit_is_not_met(measure: ModuleType) -> None:
    row = measure.count(measure.Count("calls", "adaptors", lambda: 3))
    assert (row.count, row.target, row.met) == (3, "0", False)


def test_passes_are_shown_side_by_side_and_judged_together(measure: ModuleType, clock: Clock) -> None:
    pair = measure.Pair("work", "a slower one", lambda: None, lambda: None, target=measure.Target(0.5))
    rows = [measure.Row("work", "a slower one", theirs / ours, ours, theirs, str(pair.target), met=True) for ours, theirs in ((10.0, 30.0), (20.0, 20.0))]
    both = measure.together(pair, rows)
    assert (both.runs, both.ours_us, both.peer_us, both.ratio, both.met) == ((3.0, 1.0), 15.0, 25.0, 2.0, True)
    assert measure.together(pair, rows[:1]) is rows[0]
    assert measure.agree((1.0, 1.09), 0.1) and not measure.agree((1.11, 1.0), 0.1)
