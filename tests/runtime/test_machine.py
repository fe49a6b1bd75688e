"""What the system tells about the processor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilejit.runtime import machine

FOLDER = "/sys/devices/system/cpu/cpu0/cache"


@pytest.fixture
def asked_anew() -> Iterator[None]:
    """The system is asked again in the test and after it."""
    machine.cache_bytes.cache_clear()
    yield
    machine.cache_bytes.cache_clear()


def pretend(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    plain = os.open
    monkeypatch.setattr(os, "open", lambda path, flags: plain(path.replace(FOLDER, str(folder)), flags))


def test_caches_are_read_by_level_and_instructions_do_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked_anew: None) -> None:
    rows = [("1", "Data", "48K"), ("1", "Instruction", "64K"), ("2", "Unified", "2048K"), ("3", "Unified", "300M")]
    for number, row in enumerate(rows):
        (tmp_path / f"index{number}").mkdir()
        for name, value in zip(("level", "type", "size"), row, strict=True):
            (tmp_path / f"index{number}" / name).write_text(value + "\n")
    pretend(monkeypatch, tmp_path)
    assert machine.cache_bytes() == (48 << 10, 2 << 20, 300 << 20)


@pytest.mark.parametrize("size", [None, "", "much"])
def test_a_system_that_does_not_tell_has_usual_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked_anew: None, size: str | None) -> None:
    if size is not None:
        (tmp_path / "index0").mkdir()
        for name, value in (("level", "1"), ("type", "Data"), ("size", size)):
            (tmp_path / "index0" / name).write_text(value)
    pretend(monkeypatch, tmp_path)
    assert machine.cache_bytes() == (32 << 10, 512 << 10, 8 << 20)
