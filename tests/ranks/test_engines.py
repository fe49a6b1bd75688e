"""The same programs as threads, as processes of `tilejit launch` and as processes of MPI: the same results, bit for bit."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.patience import HANG
from tests.ranks.engines import on
from tests.ranks.scenarios import SCENARIOS

ROOT = Path(__file__).parent.parent.parent
MPIRUN = shutil.which("mpirun", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))
WITHOUT_MPI = MPIRUN is None or importlib.util.find_spec("mpi4py") is None


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_ranks_as_threads(name: str, world: int) -> None:
    found, wanted = SCENARIOS[name](world, on(world))
    for key in wanted:
        np.testing.assert_array_equal(found[key], wanted[key])


@pytest.mark.parametrize("name", ["experts", "order"])
def test_ranks_as_threads_on_the_reference(name: str) -> None:
    found, wanted = SCENARIOS[name](2, on(2, "reference"))
    for key in wanted:
        np.testing.assert_array_equal(found[key], wanted[key])


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Jobs share what they compile."""
    return tmp_path_factory.mktemp("cache")


def _job(command: list[str], tmp_path: Path, world: int, cache: Path) -> None:
    """Run all scenarios in a job; every process must have what threads have."""
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment |= {"TILEJIT_CACHE": "1", "TILEJIT_CACHE_DIR": str(cache)}
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    done = subprocess.run([*command, "-m", "tests.ranks", str(tmp_path)], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    files = sorted(tmp_path.glob("*.npz"))
    assert len(files) == world
    wanted = {f"{name}.{key}": array for name, scenario in SCENARIOS.items() for key, array in scenario(world, on(world))[0].items()}
    for file in files:
        found = np.load(file)
        assert set(found) == set(wanted)
        for key, array in wanted.items():
            assert found[key].tobytes() == array.tobytes(), (file.name, key)


@pytest.mark.parametrize("world", [2, 3, 8])
def test_ranks_as_processes(world: int, tmp_path: Path, cache: Path) -> None:
    _job([sys.executable, "-m", "tilejit", "launch", "-n", str(world)], tmp_path, world, cache)


@pytest.mark.skipif(WITHOUT_MPI, reason="needs mpi4py and mpirun")
@pytest.mark.parametrize("world", [2, 4])
def test_ranks_as_processes_of_mpi(world: int, tmp_path: Path, cache: Path) -> None:
    _job([str(MPIRUN), "--oversubscribe", "-n", str(world), sys.executable], tmp_path, world, cache)
