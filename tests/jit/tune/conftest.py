"""A disk cache for the tests of tuning, empty at the start of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jit.tune.kernels import forget


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tuning")


@pytest.fixture(autouse=True)
def _cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of these tests: they share what is compiled, and no choice."""
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(folder))
    forget()


