"""`tilejit pto check|run|fmt` from the shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.pto.harness import HERE, MISTAKES
from tilejit.tools.cli import main

SCALE2 = str(HERE / "kernels" / "scale2.pto")


def test_check_reports_good_and_bad_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pto", "check", SCALE2]) == 0
    assert "ok (@scale2; A2/A3, level 2)" in capsys.readouterr().out
    assert main(["pto", "check", SCALE2, str(MISTAKES / "valid_regions.pto")]) == 1
    shown = capsys.readouterr().out
    assert "ok (@scale2" in shown and "valid_regions.pto:13:5" in shown and "need the same valid region" in shown


def test_check_takes_an_architecture(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pto", "check", "--arch", "a5", str(MISTAKES / "bf16_on_a3.pto")]) == 0
    assert main(["pto", "check", "--arch", "a2a3", str(HERE / "kernels" / "binary_i8_a5.pto")]) == 1


def test_fmt_prints_and_writes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["pto", "fmt", SCALE2]) == 0
    text = capsys.readouterr().out
    assert "!pto.tile_buf<vec, 16x16xf32>" in text
    copy = tmp_path / "k.pto"
    copy.write_text(Path(SCALE2).read_text())
    assert main(["pto", "fmt", "--write", str(copy)]) == 0
    assert copy.read_text() == text
    assert main(["pto", "fmt", "--long", str(copy)]) == 0
    assert "v_col=16, blayout=row_major, slayout=none_box, fractal=512, pad=0" in capsys.readouterr().out


def test_run_reads_and_writes_arrays(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", np.zeros_like(x))
    assert main(["pto", "run", SCALE2, str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), 2 * x)
    assert "y.npy written" in capsys.readouterr().out


def test_run_interprets_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilejit.jit.pto.program import PtoProgram

    monkeypatch.setattr(PtoProgram, "native", property(lambda program: pytest.fail("it is compiled")))
    x = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", np.zeros_like(x))
    assert main(["pto", "run", "--interpret", SCALE2, str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), 2 * x)


def test_run_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pto", "run", SCALE2]) != 0
    assert "takes 2 arguments (!pto.ptr<f32, gm>, !pto.ptr<f32, gm>), got 0" in capsys.readouterr().err
    assert main(["pto", "run", SCALE2, "--entry", "other"]) != 0
    assert "defines no function @other" in capsys.readouterr().err
    assert main(["pto", "check", "nowhere.pto"]) != 0
    assert "nowhere.pto" in capsys.readouterr().err


def test_run_takes_single_arrays_only(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    x = np.zeros((16, 16), np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    np.save(tmp_path / "y.npy", x)
    assert main(["pto", "run", SCALE2, str(tmp_path / "x.npz"), str(tmp_path / "y.npy")]) == 1
    assert "x.npz is not a .npy file for `src`: it is an archive of several arrays" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["pto", "fmt", *[SCALE2] * 20], ["pto", "check", SCALE2], ["ops"]], ids=["fmt", "check", "ops"])
def test_a_reader_that_goes_away_is_no_error(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "tilejit", *arguments], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.stderr, done.returncode) == ("", 141)
