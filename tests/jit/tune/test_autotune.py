"""`@pl.autotune` with a clock of its own: which candidates are tried, which one wins, what is never touched."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.tune.kernels import COLUMNS, ROWS, SECONDS, Clock, counted, data, lazy, scaled, tuned, whole
from tilejit import RunConfig, errors
from tilejit.jit.tune.function import Autotuned
from tilejit.jit.tune.keys import signature_of
from tilejit.jit.tune.space import Choice
from tilejit.jit.tune.trial import difference

GOLDEN = Path(__file__).parents[2] / "golden" / "tuning"


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


def test_candidates_that_look_alike_are_candidates_of_their_own() -> None:
    ways = [lambda: 2.5, lambda: 2.0]

    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor], way: Any = ways[0]) -> None:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * way()

    scaled = pl.autotune({"way": ways}, progress=False, timer=lambda choice, run: (run(), 1.0)[1], reference=lambda x: 2 * x)(pl.jit(kernel))
    x = data()
    np.testing.assert_allclose(scaled(x), 2 * x, rtol=1e-6)
    assert scaled.best(x).arguments == {"way": ways[1]}


def test_a_setting_that_changed_is_another_choice_for_calls_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def timer(choice: Choice, run: Callable[[], object]) -> float:
        run()
        return 1.0 if (choice.arguments["rows"] == 4) == (os.environ.get("TILEJIT_FAST_MATH") == "0") else 2.0

    kernel, _ = tuned(configs={"rows": [8, 4]}, timer=timer)
    x = data()
    kernel(x)
    monkeypatch.setenv("TILEJIT_FAST_MATH", "0")
    kernel(x)
    assert kernel.best(x).arguments == {"rows": 4}
    assert cast("Any", kernel)._chosen((x,), {}, None)[0].definition.param("rows").default == 4


# ----------------------------------------------------------------------------------------------------------------------
# calls that look alike


@pl.jit
def used_rows(x: pl.Tensor, out: pl.InOut[pl.Tensor], used: object, rows: int = 4):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range((16 if str(used) in ("0.0", "16", "(1, 2)") else 12) // rows):
            pl.store(pl.load(x, [i * rows, 0], [rows, 4]) * 2.0, [i * rows, 0], out)


@pytest.mark.parametrize(("whole", "part"), [(np.int64(16), np.int64(12)), (0.0, -0.0), ((1, 2), (True, 2.0))], ids=["numpy", "zeros", "tuples"])
def test_a_choice_is_never_that_of_a_call_with_another_value(whole: object, part: object) -> None:
    kernel = pl.autotune({"rows": [4, 8]}, progress=False, timer=lambda choice, run: (run(), 1.0 / cast("int", choice.arguments["rows"]))[1])(used_rows)
    x = np.ones((16, 4), np.float32)
    for used, rows in ((whole, 16), (part, 12), (whole, 16)):
        out = np.zeros_like(x)
        kernel(x, out, used)
        assert out.sum() == rows * 4 * 2, used  # 8 rows at a time leave out 4 of 12


class Picture:
    """Has a shape, and is no array."""

    shape, dtype = (4,), np.dtype(np.float32)


def test_what_tells_calls_apart() -> None:
    numbers = [1, True, 1.0, np.int64(1), np.int32(1), np.int64(2), 0.0, -0.0, np.float64(0.0), np.float64(-0.0)]
    different = [*numbers, (1, 2), (True, 2.0), (1, -0.0), (1, 0.0), "1", None]
    found = [signature_of((value,), {}, None) for value in different]
    assert None not in found and len(set(found)) == len(different)
    assert found == [signature_of((value,), {}, None) for value in different]
    assert signature_of((Picture(),), {}, None) is None and signature_of((), {"a": [1]}, None) is None
    assert signature_of((data(),), {}, None) == signature_of((data() + 1,), {}, None) != signature_of((data(12),), {}, None)
