"""`TILEJIT_PERF_MAP`: the files in which `perf` finds the names of kernels, and their code."""

from __future__ import annotations

import ctypes
import itertools
import os
import struct
import threading
from pathlib import Path

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.runtime.artifact import perf_map

X = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)


@pl.jit
def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * 2.0


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(perf_map, "path", lambda: str(tmp_path / "perf.map"))
    monkeypatch.setattr(perf_map, "dump_path", lambda: str(tmp_path / "dumps" / "jit-1.dump"))
    monkeypatch.setattr(perf_map, "_noted", [])
    monkeypatch.setattr(perf_map, "_dump", [])
    return tmp_path / "perf.map"


def test_kernels_are_listed_under_their_own_names_where_they_lie(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PERF_MAP", "1")
    doubled.cache_clear()
    compiled = doubled.compile(X)
    np.testing.assert_array_equal(compiled(X), 2 * X)
    native = compiled.only("look").native
    assert native is not None
    rows = [line.split(" ", 2) for line in written.read_text().splitlines()]
    at = {name: (int(start, 16), int(size, 16)) for start, size, name in rows}
    assert "doubled_k0" in at, "the region"
    start, size = next((int(start, 16), int(size, 16)) for start, size, name in rows if name == "doubled" and int(start, 16) == native.address)
    assert start == native.address and size > 0
    places = sorted((int(start, 16), int(size, 16)) for start, size, _ in rows)
    assert all(first + length <= second for (first, length), (second, _) in itertools.pairwise(places)), "one after the other"


def test_without_the_setting_nothing_is_written(written: Path) -> None:
    doubled.cache_clear()
    doubled(X)
    assert not written.exists()


def test_a_child_of_a_fork_has_a_file_of_its_own(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PERF_MAP", "1")
    perf_map.note(0x1000, bytes(0x80), {"tj_U$3bb.": 0, "k_a": 0x40})
    before = written.read_text()
    assert before == "1000 40 λ\n1040 40 a\n"
    os.unlink(written)
    perf_map._in_child()
    assert written.read_text() == before


def test_names_are_those_of_the_author() -> None:
    assert [perf_map.shown(name) for name in ("tj_softmax", "k_softmax_k0", "tj_U$3bb.", "tj_team_run.2")] == ["softmax", "softmax_k0", "λ", "tj_team_run.2"]


def records(dump: bytes) -> list[tuple[int, str, bytes]]:
    """Address, name and code of each function in a dump, read as perf's description of the format has it."""
    magic, version, size, machine, _, process, began, flags = struct.unpack_from("<IIIIIIQQ", dump)
    assert (magic, version, size, process, flags) == (0x4A695444, 1, 40, os.getpid(), 0) and machine in (62, 183) and began > 0
    found: list[tuple[int, str, bytes]] = []
    at, last = size, began
    while at < len(dump):
        kind, length, when, process, thread, place, address, count, number = struct.unpack_from("<IIQIIQQQQ", dump, at)
        assert (kind, process, thread, place, number) == (0, os.getpid(), threading.get_native_id(), address, len(found)) and when >= last
        name, _, code = dump[at + 56 : at + length].partition(b"\0")
        assert len(code) == count
        found.append((address, name.decode(), code))
        at, last = at + length, when
    assert at == len(dump)
    return found


def test_a_dump_has_the_code_of_every_function_under_its_name(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_PERF_MAP", "jitdump")
    doubled.cache_clear()
    compiled = doubled.compile(X)
    np.testing.assert_array_equal(compiled(X), 2 * X)
    native = compiled.only("look").native
    assert native is not None and not written.exists()
    path = Path(perf_map.dump_path())
    found = records(path.read_bytes())
    code = next(code for address, name, code in found if name == "doubled" and address == native.address)
    assert code == ctypes.string_at(native.address, len(code)) and len(code) > 16
    assert "doubled_k0" in [name for _, name, _ in found]
    assert any("jit-1.dump" in line and "r-xp" in line for line in Path("/proc/self/maps").read_text().splitlines()), "perf record looks for it there"
    perf_map._in_child()
    assert records(path.read_bytes()) == found


def test_a_dump_that_cannot_be_written_is_a_warning(written: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TILEJIT_PERF_MAP", "jitdump")
    (written.parent / "dumps").write_text("in the way")
    perf_map.note(0x1000, bytes(8), {"k_a": 0})
    assert "jit-1.dump cannot be written" in capsys.readouterr().err
