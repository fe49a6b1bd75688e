"""Watching the thread pool from tests."""

from __future__ import annotations

import platform
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tilejit.runtime import threads
from tilejit.runtime.call.abi import Team


def generation() -> int:
    """How often the pool was given work."""
    state = threads.state()
    return 0 if state is None else state[Team.GENERATION]


@contextmanager
def shared(expected: bool) -> Generator[None]:
    """The code inside gives work to the pool, or does not."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("no thread pool on this platform")
    before = generation()
    yield
    used = generation() != before
    assert used is expected, "work was shared out" if used else "work was not shared out"
