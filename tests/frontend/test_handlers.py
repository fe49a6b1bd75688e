"""What a handler of signals raises while a kernel is compiled reaches the caller as it is."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.backends.cpu.llvm import compile
from tilejit.errors import InternalError
from tilejit.frontend import context, reader


class TooLate(RuntimeError):
    pass


class Alarm:
    def ring(self, number: int, frame: object) -> None:
        raise TooLate

    __call__ = ring


@pytest.fixture(params=["function", "method", "object"])
def ringing(request: pytest.FixtureRequest) -> Iterator[None]:
    alarm = Alarm()
    handlers: dict[str, Any] = {"function": lambda number, frame: alarm.ring(number, frame), "method": alarm.ring, "object": alarm}
    before = signal.signal(signal.SIGUSR1, handlers[request.param])
    yield
    signal.signal(signal.SIGUSR1, before)


@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + 1.0


def _interrupted(*args: object) -> None:
    signal.raise_signal(signal.SIGUSR1)


@pytest.mark.parametrize("place", [(context, "span_of"), (reader, "run_ahead"), (compile.llvm, "parse_assembly")])
def test_an_error_of_a_handler_passes_through(place: tuple[object, str], ringing: None, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((4, 8), np.float32)
    monkeypatch.setenv("TILEJIT_CACHE", "0")
    kernel.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(*place, _interrupted)
        with pytest.raises(TooLate):
            kernel(x)
    np.testing.assert_array_equal(kernel(x), x + 1)


def test_an_error_of_ours_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*args: object) -> None:
        raise ValueError("wrong")

    monkeypatch.setenv("TILEJIT_CACHE", "0")
    kernel.cache_clear()
    monkeypatch.setattr(reader, "run_ahead", wrong)
    with pytest.raises(InternalError, match="ValueError: wrong"):
        kernel(np.ones((4, 8), np.float32))
