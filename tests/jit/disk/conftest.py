"""A disk cache of its own for each test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tilejit.jit.disk import stores
from tilejit.runtime.store.directory import Store


@pytest.fixture(autouse=True)
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for each test, on the platform that has one."""
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEJIT_PLATFORM", "cpu")
    return tmp_path / "cache"


@pytest.fixture
def use_store(monkeypatch: pytest.MonkeyPatch) -> Callable[[Store], None]:
    def use(store: Store) -> None:
        monkeypatch.setattr(stores, "_stores", {})
        monkeypatch.setattr(stores, "_store", lambda *_: store)

    return use


