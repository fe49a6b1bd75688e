"""`@pl.autotune` with a clock of its own: which candidates are tried, which one wins, what is kept, what is never touched."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.tune.kernels import COLUMNS, ROWS, SECONDS, counted, data, lazy, scaled, whole
from tilejit import RunConfig, errors
from tilejit.jit.disk.kernels import entries
from tilejit.jit.disk.stores import store
from tilejit.jit.function import JITFunction
from tilejit.jit.tune.function import Autotuned
from tilejit.jit.tune.search import Search, Timing
from tilejit.jit.tune.space import Axis, Choice, Point, Space
from tilejit.jit.tune.trial import difference
from tilejit.runtime.store.entry import CacheEntry

GOLDEN = Path(__file__).parents[2] / "golden" / "tuning"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tuning")


@pytest.fixture(autouse=True)
def _cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of these tests: they share what is compiled, and no choice."""
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(folder))
    forget()


def choices() -> list[CacheEntry]:
    return [entry for entry in entries() if str(entry.fields["kernel"]).startswith("tuning of ")]


def forget() -> None:
    for entry in choices():
        store().remove(entry.key)


class Clock:
    """Says what a candidate takes, and remembers what was asked; every candidate really runs."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.asked: list[str] = []
        self.stop_after = stop_after

    def __call__(self, choice: Choice, run: Callable[[], None]) -> float:
        if self.stop_after is not None and len(self.asked) >= self.stop_after:
            raise KeyboardInterrupt
        self.asked.append(str(choice))
        run()
        return SECONDS[choice.arguments.get("rows", 4)]  # type: ignore[index]


def tuned(kernel: JITFunction = scaled, configs: object = None, **options: Any) -> tuple[Autotuned, Clock]:
    clock = Clock()
    chosen: dict[str, Any] = {"timer": clock, "progress": False, **options}
    return pl.autotune({"rows": list(SECONDS)} if configs is None else configs, **chosen)(kernel), clock


# ----------------------------------------------------------------------------------------------------------------------
# searching


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


# ----------------------------------------------------------------------------------------------------------------------
# kernels


@pytest.mark.parametrize("effort", ["quick", "full"])
def test_a_call_runs_with_the_fastest_candidate_and_later_calls_time_nothing(effort: str) -> None:
    kernel, clock = tuned(effort=effort)
    x = data()
    np.testing.assert_allclose(kernel(x), 2 * x, rtol=1e-6)
    assert kernel.best(x).arguments == {"rows": 6}
    timed = len(clock.asked)
    assert timed
    for _ in range(4):
        np.testing.assert_allclose(kernel(x), 2 * x, rtol=1e-6)
    assert len(clock.asked) == timed


def test_candidates_with_other_results_and_candidates_that_do_not_compile_are_rejected() -> None:
    fast_but_wrong = [{"rows": 4}, {"rows": 6, "wrong": True}, {"rows": 5}, {"rows": 8}]
    kernel, _ = tuned(configs=fast_but_wrong)
    found = kernel.tune(data())
    assert found.best.arguments == {"rows": 8}
    why = {name: rejected for name, _, _, rejected in found.rows}
    assert re.match(r"wrong result: .* instead of .* at \[0, 0\], 95\d of 960 elements differ", why["rows=6, wrong=True"])
    assert why["rows=5"].startswith("StaticAssertionError: ")


@pytest.mark.parametrize("reference", ["numpy", lambda x: 2 * x])
def test_results_can_be_compared_with_the_reference_or_a_function_so_that_a_wrong_first_candidate_loses(reference: object) -> None:
    first_is_wrong = [{"rows": 6, "wrong": True}, {"rows": 4}, {"rows": 8}]
    kernel, _ = tuned(configs=first_is_wrong if callable(reference) else first_is_wrong[1:] + first_is_wrong[:1], reference=reference)
    x = data()
    np.testing.assert_allclose(kernel(x), 2 * x, rtol=1e-6)
    assert kernel.best(x).arguments == {"rows": 8}


def test_a_candidate_that_leaves_cells_unwritten_is_wrong_even_where_they_hold_the_right_numbers() -> None:
    kernel, _ = tuned(lazy, configs=[{"rows": 4}, {"rows": 6, "skipped": 1}])
    x = data()
    out = 2 * x
    found = kernel.tune(x, out)
    assert found.best.arguments == {"rows": 4}
    assert any(why.startswith("wrong result: 85.0 instead of ") for _, _, _, why in found.rows)
    np.testing.assert_array_equal(out, 2 * x)


def test_more_candidates_than_stay_in_memory_are_all_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilejit.jit.tune.trial._READY", 1)
    kernel, _ = tuned(effort="full")
    found = kernel.tune(data())
    assert found.best.arguments == {"rows": 6} and found.compiled == len(SECONDS)


def test_what_a_kernel_writes_is_left_alone_while_it_is_tuned() -> None:
    kernel, _ = tuned(counted)
    x, total = data(), data() + 1
    before = total.copy()
    kernel.tune(total, x)
    np.testing.assert_array_equal(total, before)
    kernel(total, x)
    np.testing.assert_allclose(total, before + x, rtol=1e-6)
    out = np.full((ROWS, COLUMNS), 7, np.float32)
    other, _ = tuned()
    other.tune(x, out)
    assert (out == 7).all()


def test_arguments_that_the_caller_gives_are_not_chosen() -> None:
    kernel, clock = tuned()
    x = data()
    np.testing.assert_allclose(kernel(x, rows=12), 2 * x, rtol=1e-6)
    out = np.empty_like(x)
    kernel(x, out, 12)
    np.testing.assert_allclose(out, 2 * x, rtol=1e-6)
    assert clock.asked == []


def test_schedules_are_tuned_and_candidates_that_code_cannot_follow_are_rejected() -> None:
    lanes: list[Any] = []

    def timer(choice: Choice, run: Callable[[], None]) -> float:
        run()
        lanes.append(choice.schedule["whole_k0/nest0"]["lanes"])
        return {8: 3.0, 16: 1.0, 32: 2.0}[lanes[-1]]

    kernel, _ = tuned(whole, configs={}, schedule={"whole_k0/nest0": {"lanes": [8, 16, 32, 7]}}, timer=timer)
    x = data()
    np.testing.assert_allclose(kernel(x), 2 * np.exp(x), rtol=1e-5)
    assert kernel.best(x).schedule == {"whole_k0/nest0": {"lanes": 16}}
    assert set(lanes) == {8, 16, 32}
    assert '"lanes": 16' in kernel.compile(x).stage("schedule")
    misspelt, _ = tuned(whole, configs={}, schedule={"whole_k0/nest": {"lanes": [8, 16]}}, timer=timer)
    with pytest.raises(errors.TuningError, match=r"has no 'whole_k0/nest'"):
        misspelt(x)


def test_what_is_compiled_anew_is_tuned_anew_unless_a_key_says_what_counts() -> None:
    every, clock = tuned()
    every(data(24))
    every(data(48))
    assert clock.asked.count("rows=24") == 2
    once, clock = tuned(key=("x.dtype",))
    once(data(24))
    timed = len(clock.asked)
    np.testing.assert_allclose(once(data(48)), 2 * data(48), rtol=1e-6)
    assert len(clock.asked) == timed
    columns, clock = tuned(key=("x.shape[1]",))
    columns(data(24))
    timed = len(clock.asked)
    columns(data(48))
    assert len(clock.asked) == timed
    columns(data(24, 16))
    assert len(clock.asked) > timed


def test_on_platforms_where_speed_means_nothing_the_untuned_arguments_run() -> None:
    kernel, clock = tuned()
    x = data()
    np.testing.assert_allclose(kernel(x, config=RunConfig(platform="reference")), 2 * x, rtol=1e-6)
    assert clock.asked == []
    with pytest.raises(errors.TuningError, match="runs on `reference`"):
        kernel.tune(x, config=RunConfig(platform="reference"))


def test_candidates_that_are_the_same_code_are_timed_once() -> None:
    kernel, clock = tuned(configs={"rows": [4, 6], "wrong": [False, False]}, effort="full")
    kernel(data())
    assert len(set(clock.asked)) == 2


def test_a_tuned_parameter_may_stand_before_others() -> None:
    @pl.jit
    def late(rows: int, x: pl.Tensor, out: pl.Out[pl.Tensor], *, wrong: bool):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(x.shape[0] // rows):
                pl.store(pl.mul(pl.load(x, [i * rows, 0], [rows, x.shape[1]]), 3.0 if wrong else 2.0), [i * rows, 0], out)

    kernel, _ = tuned(late, configs={"rows": [4, 6], "wrong": [False]})
    x = data()
    for _ in range(3):
        np.testing.assert_allclose(kernel(x=x), 2 * x, rtol=1e-6)
    assert kernel.best(x=x).arguments == {"rows": 6, "wrong": False}


def test_a_kernel_that_is_edited_while_the_process_runs_is_tuned_anew() -> None:
    def first(x: pl.Tensor, out: pl.Out[pl.Tensor], rows: int = 4):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(x.shape[0] // rows):
                pl.store(pl.mul(pl.load(x, [i * rows, 0], [rows, x.shape[1]]), 2.0), [i * rows, 0], out)

    def second(x: pl.Tensor, out: pl.Out[pl.Tensor], rows: int = 4):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(x.shape[0] // rows):
                pl.store(pl.mul(pl.load(x, [i * rows, 0], [rows, x.shape[1]]), 5.0), [i * rows, 0], out)

    kernel, clock = tuned(pl.jit(on_drift="recompile")(first), configs={"rows": [4, 6]})
    x = data()
    np.testing.assert_allclose(kernel(x), 2 * x, rtol=1e-6)
    timed = len(clock.asked)
    first.__code__ = second.__code__
    np.testing.assert_allclose(kernel(x), 5 * x, rtol=1e-6)
    assert len(clock.asked) > timed


def reader(configs: list[dict[str, int]], policy: str) -> tuple[Callable[[], tuple[Autotuned, Clock]], Callable[..., None]]:
    """A kernel that reads how many rows it works on: `rows=6` is right where 6 divides them; with `more=1` it adds what only such a candidate reads."""
    used, added = 24, 0.0

    @pl.jit(on_drift=policy)
    def part(x: pl.Tensor, out: pl.InOut[pl.Tensor], rows: int = 4, more: int = 0):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(used // rows):
                pl.store(pl.load(x, [i * rows, 0], [rows, x.shape[1]]) * 2.0 + (added if more else 0.0), [i * rows, 0], out)

    def change(rows: int, more: float = 0.0) -> None:
        nonlocal used, added
        used, added = rows, more

    return lambda: tuned(part, configs=configs), change


def covered(kernel: Autotuned) -> int:
    x, out = data(), np.zeros((ROWS, COLUMNS), np.float32)
    kernel(x, out)
    rows = int(out.any(axis=1).sum())
    np.testing.assert_allclose(out[:rows], 2 * x[:rows], rtol=1e-6)
    return rows


def test_a_choice_holds_for_what_the_kernel_read_and_for_nothing_else_in_the_process_and_from_disk() -> None:
    make, change = reader([{"rows": 4}, {"rows": 6}], "recompile")
    kernel, clock = make()
    assert [covered(kernel) for _ in range(3)] == [24] * 3 and kernel.best(data(), data()).arguments == {"rows": 6}
    change(16)
    assert [covered(kernel) for _ in range(3)] == [16] * 3 and kernel.best(data(), data()).arguments == {"rows": 4}
    timed = len(clock.asked)
    for rows in (24, 16):  # both are known now, here and on disk
        change(rows)
        again, second = make()
        assert covered(kernel) == covered(again) == rows and again.tune(data(), data()).timed == 0
        kernel.cache_clear()
        assert covered(kernel) == rows
        assert second.asked == [] and len(clock.asked) == timed


def test_what_only_a_candidate_reads_counts_too() -> None:
    make, change = reader([{"rows": 4}, {"rows": 6, "more": 1}], "recompile")
    kernel, _ = make()
    covered(kernel)
    assert kernel.best(data(), data()).arguments["rows"] == 6
    change(24, 1.0)
    fresh, _ = make()
    for one in (kernel, fresh):
        assert covered(one) == 24 and one.best(data(), data()).arguments["rows"] == 4
    change(24)
    assert kernel.tune(data(), data()).best.arguments["rows"] == 6, "what was wrong then is right now"


def test_a_change_that_is_refused_is_no_fault_of_the_candidates() -> None:
    make, change = reader([{"rows": 4}, {"rows": 6}], "raise")
    kernel, _ = make()
    covered(kernel)
    change(16)
    for use in (lambda: covered(kernel), lambda: kernel.best(data(), data()), lambda: kernel.tune(data(), data())):
        with pytest.raises(errors.StaleCaptureError, match="changed from 24 to 16"):
            use()
    kernel.cache_clear()
    assert covered(kernel) == 16


@pytest.mark.parametrize(
    "seconds", [{4: 0.0, 6: 0.0}, {4: 0.0, 6: -3.0}, {4: -1.0, 6: -2.0}, {4: 1, 6: 0}, {4: float("nan"), 6: 5.0}, {4: float("inf"), 6: -5.0}]
)
def test_a_timer_may_give_any_number(seconds: dict[int, float]) -> None:
    kernel, _ = tuned(configs={"rows": [4, 6]}, timer=lambda choice, run: seconds[cast("int", choice.arguments["rows"])])
    found = kernel.tune(data())
    assert found.best.arguments["rows"] == (4 if seconds[4] == seconds[6] else 6) and found.speedup is None
    assert all(rejected == f"the timer says {seconds[4]}" for _, _, _, rejected in found.rows if rejected)
    assert str(found)


def test_later_calls_are_as_native_as_those_of_any_kernel() -> None:
    kernel, _ = tuned()
    x = data()
    for _ in range(5):
        kernel(x)
    hits = kernel.variant(kernel.best(x)).kernel._warm
    assert hits is not None and hits.all_hits >= 2


def test_in_another_kernel_it_is_a_helper_with_its_defaults() -> None:
    inner, clock = tuned()

    @pl.jit
    def outer(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out = inner(x, out)
        return out

    x = data()
    np.testing.assert_allclose(outer(x), 2 * x, rtol=1e-6)
    assert clock.asked == []


def test_methods_choose_for_their_object() -> None:
    class Layer:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @pl.autotune({"rows": [4, 6]}, timer=Clock(), progress=False)
        @pl.jit
        def scale(self, x: pl.Tensor, out: pl.Out[pl.Tensor], rows: int = 4):
            with pl.at(level=pl.Level.CORE_GROUP):
                for i in pl.range(x.shape[0] // rows):
                    pl.store(pl.mul(pl.load(x, [i * rows, 0], [rows, x.shape[1]]), self.factor), [i * rows, 0], out)

    x = data()
    for factor in (2.0, 5.0):
        np.testing.assert_allclose(Layer(factor).scale(x), factor * x, rtol=1e-6)


# ----------------------------------------------------------------------------------------------------------------------
# keeping


def test_a_search_that_was_stopped_goes_on_where_it_was() -> None:
    kernel, clock = tuned(effort="full")
    clock.stop_after = 4
    x = data()
    with pytest.raises(KeyboardInterrupt):
        kernel(x)
    again, second = tuned(effort="full")
    again(x)
    assert again.best(x).arguments == {"rows": 6}
    fresh, third = tuned(effort="full")
    forget()
    fresh(x)
    assert len(clock.asked) + len(second.asked) == len(third.asked), "nothing is timed twice"


def test_a_longer_search_goes_on_from_a_short_one() -> None:
    kernel, clock = tuned(budget=0.0)
    x = data()
    assert len(kernel.tune(x).timings) == 1
    first = len(clock.asked)
    found = kernel.tune(x, effort="full", budget=1e9)
    assert found.best.arguments == {"rows": 6} and found.speedup == 2.5
    assert len(found.timings) == len(SECONDS) and clock.asked[first:].count("rows=4") == 0
    assert kernel.tune(x, effort="full", budget=1e9).timed == 0


SECOND = """
import numpy as np
import tilejit.language as pl
from tests.jit.tune.kernels import SECONDS, data, scaled

asked = []
def timer(choice, run):
    asked.append(str(choice))
    run()
    return SECONDS[choice.arguments["rows"]]

kernel = pl.autotune({"rows": list(SECONDS)}, timer=timer, progress=False)(scaled)
x = data()
np.testing.assert_allclose(kernel(x), 2 * x, rtol=1e-6)
print(len(asked), kernel.best(x), scaled.cache_info().compile_seconds)
"""


def in_a_process(**settings: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), *sys.path]), **settings}
    done = subprocess.run([sys.executable, "-c", SECOND], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_another_process_uses_what_was_found_without_timing_or_compiling_and_so_does_one_with_exported_kernels(tmp_path: Path) -> None:
    kernel, clock = tuned()
    kernel(data())
    assert clock.asked
    assert in_a_process() == "0 rows=6 0.0"
    shipped = tmp_path / "shipped"
    from tilejit.tools.cli import main

    assert main(["cache", "export", str(shipped), "kernels.scaled"]) == 0
    assert in_a_process(TILEJIT_CACHE_DIR=str(tmp_path / "empty"), TILEJIT_CACHE_PATH=str(shipped), TILEJIT_RUN_ONLY="1") == "0 rows=6 0.0"


def test_where_nothing_may_be_compiled_nothing_is_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_RUN_ONLY", "1")
    kernel, _ = tuned()
    with pytest.raises(errors.ArtifactError, match="would have to be tuned"):
        kernel(data())


def test_clearing_the_cache_on_disk_forgets_choices_too() -> None:
    kernel, _ = tuned()
    kernel(data())
    assert len(choices()) == 1
    kernel.cache_clear()
    assert len(choices()) == 1
    kernel.cache_clear(True)
    assert choices() == []


def test_a_damaged_record_is_as_good_as_none() -> None:
    kernel, _ = tuned()
    kernel(data())
    (entry,) = choices()
    store().put(CacheEntry(entry.key, entry.fields, {"tuning.json": b'{"candidates": [{"point": [99]}]}'}))
    again, clock = tuned()
    with pytest.warns(errors.TilejitWarning, match="no search"):
        again(data())
    assert clock.asked


# ----------------------------------------------------------------------------------------------------------------------
# comparing


def test_results_differ_by_more_than_rounding_or_not() -> None:
    a = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
    assert difference(a + 1e-6, a) is None
    assert difference(a, a[:4]) == "wrong result: shape [5, 7] instead of [4, 7]"
    b = a.copy()
    b[2, 3] += 0.1
    assert "at [2, 3], 1 of 35 elements differ" in str(difference(b, a))
    holes = a.copy()
    holes[0, 0], holes[1, 1] = np.nan, np.inf
    assert difference(holes, holes.copy()) is None
    assert difference(a, holes) is not None and difference(holes, a) is not None
    whole = np.arange(6)
    assert difference(whole, whole) is None and difference(whole + 1, whole) is not None
    half = a.astype(np.float16)
    assert difference(half, (a * 1.001).astype(np.float16)) is None and difference(half, (a * 1.1).astype(np.float16)) is not None


# ----------------------------------------------------------------------------------------------------------------------
# progress and messages


def test_a_log_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    kernel, _ = tuned(progress=True)
    kernel(data())
    kernel(data())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and re.fullmatch(r"tilejit: tuned scaled: rows=6 of 6 tried and 6 possible candidates in .* s, 2\.50 × as fast as untuned", lines[0])


@pytest.mark.parametrize("rich", [True, False])
def test_a_terminal_shows_how_far_it_is(rich: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    if not rich:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    kernel, _ = tuned(progress=True)
    kernel(data())
    shown = capsys.readouterr().err
    assert "tuned scaled: rows=6" in shown
    if not rich:
        assert "tuning scaled: 3 of 6 candidates, rows=6" in shown


def wrong_uses() -> Iterator[tuple[str, Callable[[], object]]]:
    def use(name: str, *args: Any, call: bool = False, **options: Any) -> tuple[str, Callable[[], object]]:
        def run() -> object:
            chosen: dict[str, Any] = {"progress": False, "timer": Clock(), **options}
            made = pl.autotune(*args, **chosen)(scaled)
            return made(data()) if call else made

        return name, run

    yield use("nothing")
    yield use("no_configurations", [])
    yield use("no_values", {"rows": []})
    yield use("one_value", {"rows": 4})
    yield use("unknown_parameter", {"row": [4]})
    yield use("unknown_in_configuration", [{"rows": 4}, {"rwos": 6}])
    yield use("configuration_kind", [4, 6])
    yield use("candidates_kind", 4)
    yield use("tensor", {"x": [1]})
    yield use("key", {"rows": [4]}, key=("xs",))
    yield use("key_text", {"rows": [4]}, key="x")
    yield use("key_axis", {"rows": [4]}, key=("x.shape[2]",), call=True)
    yield use("effort", {"rows": [4]}, effort="fulll")
    yield use("budget", {"rows": [4]}, budget=-1)
    yield use("compared_with", {"rows": [4]}, reference="torch")
    yield use("schedule_kind", {"rows": [4]}, schedule={"nest0": 4})
    yield use("schedule_among_parameters", {"schedule": {"nest0": {"lanes": [4]}}})
    yield use("all_fail", {"rows": [5, 7, 9, 10]}, call=True)
    yield "no_kernel", lambda: pl.autotune({"rows": [4]})(data)  # type: ignore[arg-type]


USES = dict(wrong_uses())


@pytest.mark.parametrize("name", USES)
def test_a_wrong_use_has_the_golden_message(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with pytest.raises(errors.TuningError) as caught:
        USES[name]()
    assert caught.value.hint
    shown = re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"<function \1>", f"TuningError: {caught.value}\n")
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(shown, encoding="utf-8")
    assert golden.exists() and shown == golden.read_text(encoding="utf-8")


def test_every_golden_message_belongs_to_a_wrong_use() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == sorted(USES)
