"""How long the stages of a compile take, for whoever wants to know: nothing is measured otherwise."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

Times = list[tuple[str, float]]
_active: ContextVar[Times | None] = ContextVar("tilejit_clock", default=None)
_watching: ContextVar[Callable[[str], None] | None] = ContextVar("tilejit_watching", default=None)


@contextmanager
def measured() -> Generator[Times]:
    """The names and seconds of the stages that run inside, in order."""
    times: Times = []
    token = _active.set(times)
    try:
        yield times
    finally:
        _active.reset(token)


@contextmanager
def watched(started: Callable[[str], None]) -> Generator[None]:
    """`started` is told of every stage that begins inside."""
    token = _watching.set(started)
    try:
        yield
    finally:
        _watching.reset(token)


@contextmanager
def stage(name: str) -> Generator[None]:
    """What runs inside is the stage `name`, also when it fails."""
    times, started = _active.get(), _watching.get()
    if started is not None:
        started(name)
    start = time.perf_counter()
    try:
        yield
    finally:
        if times is not None:
            times.append((name, time.perf_counter() - start))
