"""Calls of tuned kernels: arrays that stand for numbers, methods, and calls while the kernel is tuned."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any, cast

import numpy as np
import pytest

import tilejit.language as pl
from tests.jit.tune.kernels import Clock, data, tuned
from tilejit import errors
from tilejit.jit.tune import trial
from tilejit.jit.tune.function import Autotuned
from tilejit.jit.tune.space import Choice


@pytest.mark.parametrize("key", [(), ("x", "n")])
def test_an_array_that_stands_for_a_number_has_the_choice_of_that_number(key: tuple[str, ...]) -> None:
    def larger_is_faster(candidate: Choice, run: Callable[[], object]) -> float:
        run()
        return 1.0 / cast("int", candidate.arguments["rows"])

    @pl.autotune({"rows": [1, 8]}, key=key or None, progress=False, effort="full", timer=larger_is_faster)
    @pl.jit
    def head(x: pl.Tensor, n: int, out: pl.Out[pl.Tensor], rows: int = 1):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(n // rows):
                pl.store(pl.load(x, [i * rows, 0], [rows, 4]) * 2.0, [i * rows, 0], out)

    x = data(64, 4)
    for n in (64, 41, 64, 41):
        out = np.zeros_like(x)
        head(x, np.array(n), out)
        np.testing.assert_allclose(out[:n], 2 * x[:n], rtol=1e-6)
        assert not out[n:].any()


class Scaled:
    factor = 3.0

    @pl.autotune({"rows": [2, 4]}, progress=False, effort="full")
    @pl.jit
    def run(self, x: pl.Tensor, out: pl.Out[pl.Tensor], rows: int = 2):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(x.shape[0] // rows):
                pl.store(pl.load(x, [i * rows, 0], [rows, 4]) * self.factor, [i * rows, 0], out)


def test_a_tuned_method_may_be_called_by_its_class() -> None:
    x, out = data(8, 4), np.empty((8, 4), np.float32)
    Scaled.run(Scaled(), x, out)
    np.testing.assert_allclose(out, 3 * x, rtol=1e-6)


GUARD = 120.0
"""Seconds after which a call counts as one that hangs."""


def outcome(call: Callable[[], object]) -> object:
    """What a call in a thread of its own returns or raises, lest the tests hang with it."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(call())
        except errors.TilejitError as error:
            found.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(GUARD)
    return found[0] if found else "it hangs"


def by_reference(again: Callable[[], object], patch: pytest.MonkeyPatch) -> Autotuned:
    return tuned(reference=lambda x: again())[0]


def by_timer(again: Callable[[], object], patch: pytest.MonkeyPatch) -> Autotuned:
    return tuned(timer=lambda choice, run: again())[0]


def while_a_candidate_is_compiled(again: Callable[[], object], patch: pytest.MonkeyPatch) -> Autotuned:
    """As a signal handler does."""
    patch.setattr(trial, "Prepared", lambda *parts: again())
    return tuned()[0]


def while_a_candidate_is_compared(again: Callable[[], object], patch: pytest.MonkeyPatch) -> Autotuned:
    patch.setattr(trial.Prepared, "results", lambda made: again())
    return tuned()[0]


Within = Callable[[Callable[[], object], pytest.MonkeyPatch], Autotuned]


@pytest.mark.parametrize("first", [Autotuned.__call__, Autotuned.tune])
@pytest.mark.parametrize("within", [by_reference, by_timer, while_a_candidate_is_compiled, while_a_candidate_is_compared])
def test_a_call_of_a_kernel_that_is_being_tuned_for_it_is_an_error(within: Within, first: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    x = data()
    kernel = within(lambda: kernel(x), monkeypatch)
    error = outcome(lambda: first(kernel, x))
    assert isinstance(error, errors.TuningError), error
    assert "kernel 'scaled' is called while it is tuned for such a call" in str(error) and "scaled.kernel(…)" in str(error)
    monkeypatch.undo()
    fixed, _ = tuned()
    np.testing.assert_allclose(fixed(x), 2 * x, rtol=1e-6)  # nothing is said to be wrong because of it
    assert fixed.best(x).arguments == {"rows": 6}


def test_a_reference_may_call_the_plain_kernel_and_another_search_of_the_tuned_one() -> None:
    x = data()

    def reference(given: Any) -> Any:
        return kernel.kernel(given) if given.shape[0] < 24 else np.concatenate([kernel(given[:12]), kernel(given[12:])])

    kernel, _ = tuned(configs={"rows": [4, 6]}, reference=reference)
    np.testing.assert_allclose(cast("Any", outcome(lambda: kernel(x))), 2 * x, rtol=1e-6)


@pytest.mark.parametrize("same", [True, False])
def test_another_thread_waits_for_the_search(same: bool) -> None:
    x, results, threads = data(), list[Any](), list[Thread]()

    class Starting(Clock):
        def __call__(self, choice: Choice, run: Callable[[], None]) -> float:
            if not threads:
                threads.append(Thread(target=lambda: results.append(other(x)), daemon=True))
                threads[0].start()
            return super().__call__(choice, run)

    clock, rows = Starting(), {"rows": [4, 6, 8]}
    kernel, _ = tuned(configs=rows, timer=clock)
    other, second = (kernel, clock) if same else tuned(configs=rows)
    kernel(x)
    timed = len(clock.asked)
    threads[0].join(GUARD)
    np.testing.assert_allclose(results[0], 2 * x, rtol=1e-6)
    assert len(second.asked) == (timed if same else 0)
