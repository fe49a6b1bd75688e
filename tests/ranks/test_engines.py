"""The same programs as threads, as processes of `tilejit launch` and as processes of MPI: the same results, bit for bit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.patience import HANG
from tests.ranks.engines import WITHOUT_MPI, launched, mpirun, on
from tests.ranks.scenarios import SCENARIOS
from tilejit.errors import PlatformError
from tilejit.runtime.ranks import interpreted
from tilejit.runtime.ranks.engine import Engine

ROOT = Path(__file__).parent.parent.parent


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


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not say what is shared")
def test_memory_of_ranks_as_threads_is_not_shared_with_forked_processes() -> None:
    engine = Engine(2, range(2))
    addresses = (engine.stop, engine.area(100), engine.standins(100))
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    ends = [(*(int(end, 16) for end in row[0].split("-")), row[1]) for row in maps]
    assert [flags for address in addresses for start, stop, flags in ends if start <= address < stop] == ["rw-p"] * 3


def test_where_files_cannot_be_locked_ranks_are_threads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(interpreted, "fcntl", None)
    with pytest.raises(PlatformError, match=r"(?s)locks of files.*as threads of one process"):
        interpreted.share_lock(str(tmp_path / "lock"))
    found, wanted = SCENARIOS["shifts"](2, on(2, "reference"))
    np.testing.assert_array_equal(found["put"], wanted["put"])


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Jobs share what they compile."""
    return tmp_path_factory.mktemp("cache")


SUMS = ("collectives.allreduce", "collectives.reduce_scatter")
"""Sums of floats: between machines with several ranks they are taken machine by machine."""


def _job(command: list[str], tmp_path: Path, world: int, cache: Path, *divisions: int) -> None:
    """Run all scenarios in a job, with so many ranks to a machine; every process must have what threads have."""
    environment = {**os.environ, "TILEJIT_CACHE": "1", "TILEJIT_CACHE_DIR": str(cache)}
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    done = subprocess.run(
        [*command, "-m", "tests.ranks", str(tmp_path), *map(str, divisions)],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = {f"{name}.{key}": array for name, scenario in SCENARIOS.items() for key, array in scenario(world, on(world))[0].items()}
    for division in divisions:
        first = np.load(tmp_path / f"{division}-0.npz")
        assert set(first) == set(wanted)
        for key, array in wanted.items():
            if key in SUMS and 1 < division < world:
                np.testing.assert_allclose(first[key], array, rtol=1e-5, atol=1e-6)
            else:
                assert first[key].tobytes() == array.tobytes(), (division, key)
        for rank in range(1, world):
            other = np.load(tmp_path / f"{division}-{rank}.npz")
            assert all(other[key].tobytes() == first[key].tobytes() for key in wanted), (division, rank)


@pytest.mark.parametrize("world", [3, 8])
def test_ranks_as_processes(world: int, tmp_path: Path, cache: Path) -> None:
    _job(launched(world), tmp_path, world, cache, 0)


@pytest.mark.skipif(WITHOUT_MPI, reason="needs mpi4py and mpirun")
@pytest.mark.parametrize(("world", "divisions"), [(4, (0, 3, 2))], ids=["4"])
def test_ranks_as_processes_of_mpi_on_one_machine_and_on_several(world: int, divisions: tuple[int, ...], tmp_path: Path, cache: Path) -> None:
    """With 2 of 4 ranks to a machine there are two of them, with 3 one machine has one rank; what crosses between them goes through MPI's windows."""
    _job(mpirun(world), tmp_path, world, cache, *divisions)
