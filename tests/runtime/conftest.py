"""What several files of tests of compiled programs share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.programs import binary
from tilejit import CompiledProgram, ir


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Artifacts go to a directory of the test."""
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def add() -> CompiledProgram:
    return ir.compile(binary("FP32"), platform="cpu")


