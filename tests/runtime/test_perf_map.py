"""`TILEJIT_PERF_MAP`: the file in which `perf` finds the names of kernels."""

from __future__ import annotations

import itertools
import os
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
    monkeypatch.setattr(perf_map, "_written", [])
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
    perf_map.note(0x1000, 0x80, {"tj_U$3bb.": 0, "k_a": 0x40})
    before = written.read_text()
    assert before == "1000 40 λ\n1040 40 a\n"
    os.unlink(written)
    perf_map._in_child()
    assert written.read_text() == before


def test_names_are_those_of_the_author() -> None:
    assert [perf_map.shown(name) for name in ("tj_softmax", "k_softmax_k0", "tj_U$3bb.", "tj_team_run.2")] == ["softmax", "softmax_k0", "λ", "tj_team_run.2"]
