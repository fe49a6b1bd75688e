"""How tests run programs of ranks."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

from tilejit.runtime import DistributedConfig, RunConfig

PLATFORMS = ("reference", "cpu")
_MPIRUN = shutil.which("mpirun", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))
WITHOUT_MPI = _MPIRUN is None or importlib.util.find_spec("mpi4py") is None


def launched(world: int) -> list[str]:
    """The command in front of a module that runs as processes of one machine."""
    return [sys.executable, "-m", "tilejit", "launch", "-n", str(world)]


def mpirun(world: int) -> list[str]:
    """The command in front of a module that runs as processes of MPI."""
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    return [str(_MPIRUN), *root, "--oversubscribe", "-n", str(world), sys.executable]


def on(world: int, platform: str = "cpu", **options: object) -> RunConfig:
    """A world of threads."""
    return RunConfig(platform=platform, distributed_config=DistributedConfig(list(range(world)), **options))  # type: ignore[arg-type]
