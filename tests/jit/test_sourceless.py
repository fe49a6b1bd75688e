"""Kernels whose source files were not shipped: found by their code where only running is allowed, and only if it tells their text."""

from __future__ import annotations

import compileall
import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
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


WIDENED = """
import numpy as np
import tilejit.language as pl

@pl.jit
def widened(x: pl.Tensor, out: "pl.Out[pl.Tensor[[x.shape[0], {factor} * x.shape[1]], {dtype}]]"):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, 0 : x.shape[1]] = x

def main():
    found = widened(np.full((2, 4), 0.1, np.float64))
    print(found.shape[1], found.dtype, widened.cache_info().loaded)
"""


@pytest.mark.parametrize(("factor", "dtype", "shown"), [(2, "x.dtype", "8 float64 1"), (3, "x.dtype", ""), (2, "pl.FP32", "")])
def test_an_annotation_in_quotes_counts_without_the_source(factor: int, dtype: str, shown: str, tmp_path: Path) -> None:
    """It is no part of the code of its function."""
    source = tmp_path / "shipped.py"
    source.write_text(WIDENED.format(factor=2, dtype="x.dtype"))
    done = run(tmp_path, run_only=False)
    assert done.stdout.split() == ["8", "float64", "0"], done.stderr
    source.write_text(WIDENED.format(factor=factor, dtype=dtype))
    compileall.compile_file(str(source), legacy=True, quiet=2, force=True)
    source.unlink()
    done = run(tmp_path, run_only=True)
    assert done.stdout.strip() == shown
    assert bool(shown) or "TILEJIT_RUN_ONLY forbids it" in done.stderr


MADE = """
import tilejit.language as pl

def make():
    @pl.jit
    def widened(x: pl.Tensor, out: "pl.Out[pl.Tensor[[x.shape[0], {factor} * x.shape[1]], x.dtype]]"):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:, 0 : x.shape[1]] = x
    return widened
"""


def test_an_annotation_in_quotes_is_that_of_the_function_whatever_its_file_says_by_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "made_of_annotations.py"
    source.write_text(MADE.format(factor=2))
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module(source.stem)
    source.write_text(MADE.format(factor=3))
    kernel = module.make()
    x = np.ones((2, 4), np.float32)
    assert [kernel(x).shape for _ in range(3)] == [(2, 8)] * 3
    kernel.__wrapped__.__annotations__["out"] = kernel.__wrapped__.__annotations__["out"].replace("2 *", "4 *")
    kernel.cache_clear()
    assert [kernel(x).shape for _ in range(3)] == [(2, 16)] * 3
    sys.modules.pop(source.stem)
