"""Processes that call kernels while somebody damages the cache under them: every result is right, nobody notices, the cache is usable afterwards."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.patience import HANG

FACTORS = 6
WORKERS = 2
FAULTS = int(os.environ["TILEJIT_TEST_FAULTS"]) // 25 if "TILEJIT_TEST_FAULTS" in os.environ else 80

KERNEL = """
import tilejit.language as pl

@pl.jit
def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * {factor}.0 + 1.0
"""

WORKER = """
import importlib, os, random, sys, warnings
import numpy as np
from tilejit.errors import TilejitWarning

warnings.simplefilter("ignore", TilejitWarning)
modules = [importlib.import_module(f"kernel{number}") for number in range(int(sys.argv[3]))]
rng, calls, loaded = random.Random(int(sys.argv[1])), 0, 0
print("ready", flush=True)
while not os.path.exists(sys.argv[2]) and calls < int(sys.argv[4]):
    factor = rng.randrange(len(modules))
    kernel = importlib.reload(modules[factor]).scaled  # nothing in memory: every first call asks the disk
    x = np.arange(rng.randrange(1, 4) * 7, dtype=np.float32).reshape(-1, 7)
    for _ in range(2):
        out = np.full_like(x, np.nan)
        kernel(x, out)
        np.testing.assert_array_equal(out, x * factor + 1)
    calls, loaded = calls + 1, loaded + kernel.cache_info().loaded
print(calls, loaded)
"""


class Chaos:
    """Does one harmful thing after the other to the files of a cache."""

    def __init__(self, root: Path, outside: Path, rng: random.Random) -> None:
        self.root, self.outside, self.rng = root, outside, rng
        self.kinds: list[Callable[[Path], None]] = [
            self.flip, self.flip, self.truncate, self.empty, self.append, self.pickled, self.remove, self.exchange, self.directory, self.link, self.fifo,
            self.shard, self.locks, self.leftovers, self.quarantine,
        ]  # fmt: skip

    def strike(self) -> bool:
        """One fault; False when there was nothing to damage."""
        files = [path for path in self.root.glob("??/*.tj") if path.is_file() and not path.is_symlink()]
        if not files:
            return False
        try:
            self.rng.choice(self.kinds)(self.rng.choice(files))
        except OSError:
            return False  # a worker was faster
        return True

    def flip(self, path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(self.rng.randrange(path.stat().st_size or 1))
            byte = file.read(1) or b"\0"
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ (1 << self.rng.randrange(8))]))

    def truncate(self, path: Path) -> None:
        os.truncate(path, self.rng.randrange(path.stat().st_size or 1))

    def empty(self, path: Path) -> None:
        os.truncate(path, 0)

    def append(self, path: Path) -> None:
        with path.open("ab") as file:
            file.write(b"more")

    def pickled(self, path: Path) -> None:
        path.write_bytes(pickle.dumps({"evil": os.getpid}))

    def remove(self, path: Path) -> None:
        path.unlink()

    def exchange(self, path: Path) -> None:
        others = [other for other in self.root.glob("??/*.tj") if other != path and other.is_file()]
        if others:
            shutil.copyfile(self.rng.choice(others), path)

    def directory(self, path: Path) -> None:
        path.unlink()
        path.mkdir()

    def link(self, path: Path) -> None:
        path.unlink()
        path.symlink_to(self.outside)

    def fifo(self, path: Path) -> None:
        path.unlink()
        os.mkfifo(path)

    def shard(self, path: Path) -> None:
        shutil.rmtree(path.parent)

    def locks(self, path: Path) -> None:
        shutil.rmtree(self.root / "locks")

    def leftovers(self, path: Path) -> None:
        (path.parent / f".tmp-{os.getpid()}-{self.rng.getrandbits(40):x}").write_bytes(b"half")

    def quarantine(self, path: Path) -> None:
        place = self.root / "quarantine"
        if place.is_dir():
            shutil.rmtree(place)
            place.write_text("in the way")
        else:
            place.unlink(missing_ok=True)


def start(folder: Path, seed: int, calls: int = 1_000_000) -> subprocess.Popen[str]:
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2] / "src"), str(folder)]), "TILEJIT_CACHE": "1",
        "TILEJIT_CACHE_DIR": str(folder / "cache"), "TILEJIT_PLATFORM": "cpu", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    command = [sys.executable, "-c", WORKER, str(seed), str(folder / "stop"), str(FACTORS), str(calls)]
    worker = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n"
    return worker


def finish(worker: subprocess.Popen[str]) -> tuple[int, int]:
    """How often the worker called, and how often the disk had what it asked for."""
    output, errors = worker.communicate(timeout=HANG)
    assert worker.returncode == 0, errors
    calls, loaded = output.split()
    return int(calls), int(loaded)


@pytest.mark.slow
def test_faults_in_the_files_of_a_cache_never_reach_the_processes_that_use_it(tmp_path: Path) -> None:
    for factor in range(FACTORS):
        (tmp_path / f"kernel{factor}.py").write_text(KERNEL.format(factor=factor))
    outside = tmp_path / "outside"
    outside.write_bytes(b"not yours")
    rng = random.Random(8)
    chaos = Chaos(tmp_path / "cache", outside, rng)
    workers = [start(tmp_path, seed) for seed in range(WORKERS)]
    struck, seed = 0, WORKERS
    while struck < FAULTS:
        time.sleep(rng.random() * 0.03)
        struck += chaos.strike()
        if rng.random() < 0.004:
            victim = rng.randrange(WORKERS)
            assert workers[victim].poll() is None, workers[victim].communicate()[1]
            workers[victim].kill()
            workers[victim].communicate()
            workers[victim] = start(tmp_path, seed)
            seed, struck = seed + 1, struck + 1
    (tmp_path / "stop").touch()
    for worker in workers:
        assert finish(worker)[0] > 0
    assert outside.read_bytes() == b"not yours"
    (tmp_path / "stop").unlink()
    with suppress(OSError):
        (tmp_path / "cache" / "quarantine").unlink()
    calls, loaded = finish(start(tmp_path, 999, calls=60))
    assert loaded >= calls - 3 * FACTORS > 0, "the cache is usable afterwards: each kernel is compiled at most once more for each shape"
