"""Kernels whose source files were not shipped: found by their code where only running is allowed, and only if it tells their text."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = """
import numpy as np
import tilejit.language as pl

N = {value}

@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t{annotation} = x + float(N)
        out[:] = t

def main():
    out = np.zeros((2, 3), np.float32)
    kernel(np.ones((2, 3), np.float32), out)
    print(out[0, 0], kernel.cache_info().loaded)
"""
PLAIN, ANNOTATED = "", ": pl.Tensor[[2, 3], pl.FP32]"


def run(folder: Path, run_only: bool) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TILEJIT_CACHE_DIR": str(folder / "cache"), "TILEJIT_RUN_ONLY": str(int(run_only)), "TILEJIT_PLATFORM": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), environment.get("PYTHONPATH", "")])
    return subprocess.run([sys.executable, "-c", "import shipped; shipped.main()"], env=environment, capture_output=True, text=True)


def ship(folder: Path, *forms: str) -> None:
    """Run each form with its source, then leave only the byte code of the last one."""
    source = folder / "shipped.py"
    for form in forms:
        source.write_text(TEXT.format(value=3, annotation=form))
        done = run(folder, run_only=False)
        assert done.stdout.split() == ["4.0", "0"], done.stderr
    compileall.compile_file(str(source), legacy=True, quiet=2, force=True)
    source.unlink()


def test_a_kernel_without_its_source_runs_where_only_running_is_allowed(tmp_path: Path) -> None:
    ship(tmp_path, PLAIN)
    done = run(tmp_path, run_only=True)
    assert done.stdout.split() == ["4.0", "1"], done.stderr
    refused = run(tmp_path, run_only=False)
    assert refused.returncode != 0 and "cannot be found" in refused.stderr


@pytest.mark.parametrize("forms", [[ANNOTATED], [PLAIN, ANNOTATED]])
def test_code_that_two_texts_share_tells_nothing(forms: list[str], tmp_path: Path) -> None:
    """Annotations of locals leave no trace in code."""
    ship(tmp_path, *forms)
    done = run(tmp_path, run_only=True)
    assert done.returncode != 0 and "cannot be found" in done.stderr


@pytest.mark.parametrize("value", [3, 4])
def test_what_the_module_says_now_counts(value: int, tmp_path: Path) -> None:
    ship(tmp_path, PLAIN)
    (tmp_path / "shipped.py").write_text(TEXT.format(value=value, annotation=PLAIN))
    compileall.compile_file(str(tmp_path / "shipped.py"), legacy=True, quiet=2, force=True)
    (tmp_path / "shipped.py").unlink()
    done = run(tmp_path, run_only=True)
    if value == 3:
        assert done.stdout.split() == ["4.0", "1"], done.stderr
    else:
        assert done.returncode != 0 and "`N` is 4" in done.stderr
