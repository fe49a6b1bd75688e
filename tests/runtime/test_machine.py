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


GROUPS = {
    "none": ("", {}, None),
    "no limit": ("0::/a/b", {"a/b/cpu.max": "max 100000"}, None),
    "of the group": ("0::/a/b", {"a/b/cpu.max": "250000 100000"}, 2),
    "of a group around it": ("0::/a/b", {"cpu.max": "max 100000", "a/cpu.max": "300000 100000", "a/b/cpu.max": "800000 100000"}, 3),
    "of the container's own root": ("0::/outside/name", {"cpu.max": "150000 50000"}, 3),
    "less than one": ("0::/", {"cpu.max": "20000 100000"}, 1),
    "first version": ("5:memory:/x\n4:cpu,cpuacct:/x", {"cpu,cpuacct/x/cpu.cfs_quota_us": "400000", "cpu,cpuacct/x/cpu.cfs_period_us": "100000"}, 4),
    "first version, no limit": ("4:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
    "damaged": ("0::/\nnothing", {"cpu.max": "many 0"}, None),
}


@pytest.mark.parametrize("name", GROUPS)
def test_no_more_processors_than_the_container_is_given_time_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    own, files, quota = GROUPS[name]
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text + "\n")
    (tmp_path / "own").write_text(own)
    monkeypatch.setattr(machine, "_GROUPS", str(tmp_path))
    monkeypatch.setattr(machine, "_OWN_GROUP", str(tmp_path / "own"))
    monkeypatch.setattr(machine, "_quota", machine._quota.__wrapped__)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(6)))
    assert machine._quota() == quota
    assert machine.processors() == (quota or 6)
