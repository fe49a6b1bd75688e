"""`tilejit cache`: every action on a cache that real kernels filled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilejit.language as pl
from tilejit.jit.disk import kernels as disk
from tilejit.jit.function import JITFunction
from tilejit.tools.cli import main

FACTOR = 3.0


def kernel() -> JITFunction:
    @pl.jit
    def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * FACTOR

    return scaled


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A cache with two specialisations of one kernel; their keys."""
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEJIT_PLATFORM", "cpu")
    filled = kernel()
    for dtype in (np.float32, np.float16):
        filled(np.ones((2, 3), dtype), np.zeros((2, 3), dtype))
    return list(filled._cache.asked)


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    capsys.readouterr()
    assert main(["cache", *arguments]) == status
    return capsys.readouterr().out


def test_ls_lists_kernels_with_their_arguments(keys: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "ls", "scaled")
    assert all(key[:12] in out for key in keys)
    assert "scaled(x: FP32 [2, 3], out: FP32 [2, 3])" in out and out.count("\n") == 3


def test_show_prints_every_field_and_section(keys: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "show", keys[0][:10])
    assert keys[0] in out and "FACTOR" in out and "section kernel.bin" in out


def test_show_of_an_unknown_key_says_so(keys: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "show", "zz"]) == 1
    assert "no entries have a key that begins with 'zz'" in capsys.readouterr().err


def test_why_names_the_fields_that_differ(keys: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    expected = "`x`: dtype FP32 → FP16"
    assert expected in said(capsys, "why", keys[1])
    assert expected in said(capsys, "why", keys[1], keys[0])


def test_verify_finds_damage_and_sets_it_aside(keys: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "entries are whole" in said(capsys, "verify")
    path = tmp_path / "cache" / keys[0][:2] / f"{keys[0]}.tj"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.warns(UserWarning, match="damaged"):
        assert f"{keys[0][:12]}  damaged" in said(capsys, "verify", status=1)
    assert not path.exists()


def test_exported_kernels_run_elsewhere_without_compiling(
    keys: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(capsys, "export", str(tmp_path / "shipped"), "scaled")
    monkeypatch.setenv("TILEJIT_RUN_ONLY", "1")
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "other"))
    assert "imported" in said(capsys, "import", str(tmp_path / "shipped"))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(kernel()(x), 3 * x)
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "third"))
    monkeypatch.setenv("TILEJIT_CACHE_PATH", str(tmp_path / "shipped"))
    np.testing.assert_array_equal(kernel()(x), 3 * x)


def test_import_refuses_what_is_damaged(keys: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shard = tmp_path / "shipped" / keys[0][:2]
    shard.mkdir(parents=True)
    (shard / f"{keys[0]}.tj").write_bytes(b"no entry")
    assert "refused 1" in said(capsys, "import", str(tmp_path / "shipped"), status=1)


@pytest.mark.parametrize(
    ("action", "place"), [("export", "file"), ("export", "file/below"), ("export", "/proc/nope"), ("import", "missing"), ("import", "file")]
)
def test_places_that_cannot_be_are_named(action: str, place: str, keys: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    capsys.readouterr()
    assert main(["cache", action, str(tmp_path / place)]) == 1
    said = capsys.readouterr()
    assert str(tmp_path / place) in said.err and "help: name a directory" in said.err and "ported" not in said.out
    assert (tmp_path / "file").read_text() == "no directory"


def test_clear_and_gc_remove_entries(keys: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "removed 2 entries" in said(capsys, "clear", "scaled")
    sizes = [info.size for _, info in disk.store().entries()]
    monkeypatch.setenv("TILEJIT_CACHE_BYTES", str(sum(sizes) - 1))
    assert "removed" in said(capsys, "gc")
    assert 0 < len(list(disk.store().entries())) < len(sizes)
    said(capsys, "clear")
    assert not list(disk.store().entries())
