"""Threads that call one kernel while what it reads changes: once it has settled, no call gives what it was."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.jit.conftest import MakeKernel
from tilejit.errors import StaleCaptureError
from tilejit.runtime.call import warm

ROUNDS = max(2, int(os.environ.get("TILEJIT_TEST_RACES", "20")) // 10)
TEXT = """
VALUES = [1]
class Owner:
    value = 1
def asked():
    return VALUES[0]
@pl.jit(on_drift={policy!r})
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + {read}
"""
READS = {"asked": "asked()", "watched": "Owner.value"}

pytestmark = [pytest.mark.dispatch, pytest.mark.filterwarnings("ignore:kernel .* asks"), pytest.mark.parametrize("read", READS)]


class Shared:
    """A kernel with the value that it reads."""

    def __init__(self, make_kernel: MakeKernel, read: str, policy: str = "recompile") -> None:
        self.kernel = make_kernel(TEXT.format(read=READS[read], policy=policy))
        self._names: dict[str, Any] = self.kernel.definition.function.__globals__

    def become(self, value: int) -> None:
        self._names["VALUES"][0] = self._names["Owner"].value = value

    def called(self, rows: int, times: int = 3) -> list[float]:
        """What calls with so many rows give for the value, in this thread."""
        x = np.full((rows, 4), rows, np.float32)
        return [float(self.kernel(x)[-1, -1]) - rows for _ in range(times)]

    def changed_elsewhere(self, value: int, done: threading.Event) -> threading.Thread:
        """Another thread changes the value, and calls until its calls are warm again."""

        def change() -> None:
            try:
                self.become(value)
                self.called(1)
            finally:
                done.set()

        thread = threading.Thread(target=change)
        thread.start()
        return thread


class Noticed:
    """A lock that says when a thread comes for it."""

    def __init__(self, lock: Any, come: Callable[[], None]) -> None:
        self._lock, self._come = lock, come

    def __enter__(self) -> None:
        self._come()
        self._lock.__enter__()

    def __exit__(self, *error: object) -> None:
        self._lock.__exit__(*error)


def test_a_program_is_not_served_for_answers_that_another_thread_has_replaced(read: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Shared(make_kernel, read)
    assert shared.called(1) == [1.0] * 3
    assert shared.called(2, times=1) == [1.0]  # the next call like it will be served
    threads: list[threading.Thread] = []
    done = threading.Event()  # or it has to wait for this thread
    serve, here = warm.WarmCalls._serve_natively, threading.get_ident()

    def change_and_serve(*given: Any) -> Any:
        if threading.get_ident() == here and not threads:
            threads.append(shared.changed_elsewhere(2, done))
            done.wait()
        return serve(*given)

    def come() -> None:
        if threading.get_ident() != here:
            done.set()

    ways: Any = shared.kernel._warm
    ways._lock = Noticed(ways._lock, come)
    monkeypatch.setattr(warm.WarmCalls, "_serve_natively", change_and_serve)
    assert shared.called(2, times=1) == [1.0]
    threads[0].join()
    assert shared.called(2) + shared.called(1) == [2.0] * 6


def test_a_call_that_ends_after_a_change_is_not_the_next_one_to_try(read: str, make_kernel: MakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_FASTPATH", "0")
    shared = Shared(make_kernel, read)
    for rows in (2, 1):
        assert shared.called(rows) == [1.0] * 3
    ways: Any = shared.kernel._warm
    known = ways._known
    (key,) = (key for key in known if (2, 4) in key)
    call = known[key]

    def call_and_change(args: tuple[object, ...]) -> object:
        result = call(args)
        if not done:
            done.append(True)
            shared.changed_elsewhere(2, threading.Event()).join()
        return result

    done: list[bool] = []
    known[key] = call_and_change
    assert shared.called(2, times=1) == [1.0] and done
    assert shared.called(2) + shared.called(1) == [2.0] * 6


@pytest.mark.parametrize("policy", ["recompile", "raise"])
def test_many_threads_and_changes(policy: str, read: str, make_kernel: MakeKernel) -> None:
    shared = Shared(make_kernel, read, policy)

    def called(rows: int, times: int) -> None:
        for _ in range(times):
            try:
                shared.called(rows)
            except StaleCaptureError:
                assert policy == "raise"

    for turn in range(ROUNDS):
        threads = [threading.Thread(target=called, args=(rows, 30)) for rows in range(1, 5)]
        for thread in threads:
            thread.start()
        for value in (turn, turn + 1, turn + 2):
            shared.become(value % 4)
            called(5, 1)
        for thread in threads:
            thread.join()
        for rows in range(1, 5):
            try:
                assert shared.called(rows) == [float((turn + 2) % 4)] * 3
            except StaleCaptureError:
                assert policy == "raise"
