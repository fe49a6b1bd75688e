"""Users' kernels run unchanged, as scripts, on every platform."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KERNELS = sorted((Path(__file__).parent / "kernels").glob("0*.py"))


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_a_file_of_kernels_runs_as_a_script(path: Path, platform: str) -> None:
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False, env={**os.environ, "TILEJIT_PLATFORM": platform})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("OK")


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("path", [path for path in KERNELS if path.stem.startswith("06")], ids=lambda path: path.stem)
def test_blocks_and_tasks_run_on_any_number_of_threads(path: Path, platform: str, threads: str) -> None:
    environment = {**os.environ, "TILEJIT_PLATFORM": platform, "TILEJIT_NUM_THREADS": threads}
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
