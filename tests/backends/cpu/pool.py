"""Watching the thread pool from tests."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tilejit.runtime import threads
from tilejit.runtime.abi import Team


@contextmanager
def shared(expected: bool) -> Generator[None]:
    """The code inside gives work to the pool, or does not."""
    if not threads.team():
        pytest.skip("no thread pool on this platform")
    before = threads.state()[Team.GENERATION]
    yield
    used = threads.state()[Team.GENERATION] != before
    assert used is expected, "work was shared out" if used else "work was not shared out"
