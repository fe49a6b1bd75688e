"""Commands that take a kernel by name: dump, repro, and what all commands have."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np

import tilejit
import tilejit.language as pl

KERNEL = '''
import tilejit.language as pl

@pl.jit
def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(x, x)

@pl.jit
def wrong(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.matmul(x, x)
'''
ARGUMENTS = ("x=3x5:FP32", "out=3x5:FP32")


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "kernels.py").write_text(KERNEL, encoding="utf-8")
    return subprocess.run([sys.executable, "-m", "tilejit", *arguments], capture_output=True, text=True, check=False, cwd=folder)


def test_the_version_is_the_package_s(tmp_path: Path) -> None:
    done = command(tmp_path, "--version")
    assert (done.returncode, done.stdout) == (0, f"tilejit {tilejit.__version__}\n")


def test_dump_prints_a_stage_or_their_names(tmp_path: Path) -> None:
    names = command(tmp_path, "dump", "kernels.py:doubled", *ARGUMENTS).stdout.split()
    assert {"python", "ir", "schedule", "ll", "s"} <= set(names)
    shown = command(tmp_path, "dump", "kernels.py:doubled", *ARGUMENTS, "--stage", "python", "--json")
    assert "@pl.program" in json.loads(shown.stdout)["python"]
    wrong = command(tmp_path, "dump", "kernels.py:doubled", *ARGUMENTS, "--stage", "pyton")
    assert wrong.returncode == 1 and "did you mean `python`" in wrong.stderr


def test_a_repro_reproduces_the_failure_elsewhere(tmp_path: Path) -> None:
    done = command(tmp_path, "repro", "kernels.py:wrong", *ARGUMENTS)
    assert (done.returncode, done.stdout) == (0, "repro-wrong.zip\n"), done.stderr
    elsewhere = tmp_path / "elsewhere"
    with zipfile.ZipFile(tmp_path / "repro-wrong.zip") as archive:
        archive.extractall(elsewhere)
    about = json.loads((elsewhere / "about.json").read_text(encoding="utf-8"))
    assert about["failed"] == "front end" and "inner" in about["error"] and about["versions"]["numpy"] == np.__version__
    (elsewhere / "trace.html").unlink()
    again = subprocess.run([sys.executable, "reproduce.py"], capture_output=True, text=True, check=False, cwd=elsewhere)
    assert again.returncode == 1 and "pl.matmul(x, x)" in again.stderr
    assert (elsewhere / "trace.html").is_file()


def test_doctor_speaks_json(tmp_path: Path) -> None:
    found = json.loads(command(tmp_path, "doctor", "--json").stdout)
    assert found["machine"][0]["what"] == "Python" and "cpu" in found["targets"]


def test_kernels_and_benchmarks_are_tables_in_a_notebook() -> None:
    @pl.jit
    def shown(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = pl.add(x, x)

    x = np.ones((2, 3), np.float32)
    text = shown._repr_html_()
    assert "<td>out</td><td>tensor</td><td>Out</td>" in text and "out[:] = pl.add(x, x)" in text and "0 compiled" in text
    assert text.endswith("<pre>@pl.jit\ndef shown(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = pl.add(x, x)</pre>")
    program = shown.lower(x)._repr_html_()
    assert "<td>shown</td><td>orchestration</td><td>x: Tensor[[2, 3], FP32], out: Tensor[[2, 3], FP32]</td>" in program and "pl.add(x, x)" in program
    stats = shown.compile(x).benchmark(x, rounds=3)
    assert "<th>median</th>" in stats._repr_html_() and "3 calls" in stats._repr_html_()
