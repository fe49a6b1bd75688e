"""Which engine a call runs on: threads of this process, processes of a launcher, or processes of MPI."""

from __future__ import annotations

import os

from tilejit import config as settings
from tilejit.errors import ArgumentError, OptionError
from tilejit.runtime.locks import new_lock
from tilejit.runtime.ranks.config import ENGINES, DistributedConfig
from tilejit.runtime.ranks.engine import Engine

_MPI = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE")
_lock = new_lock()
_idle: dict[int, list[Engine]] = {}
_job: list[Engine] = []


def started_with() -> int:
    """How many processes the job has; 1 where there is none."""
    if settings.WORLD.value:
        return settings.WORLD.value
    for name in _MPI:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return int(os.environ["SLURM_NTASKS"]) if os.environ.get("SLURM_NTASKS", "").isdigit() and "PMIX_RANK" in os.environ else 1


def chosen(config: DistributedConfig | None) -> str:
    """The engine of a call."""
    wanted = settings.ENGINE.value or "auto"
    if config is not None and config.engine != "auto":
        wanted = config.engine
    if wanted not in ENGINES:
        raise OptionError(f"{settings.ENGINE.variable}={wanted!r}", help=f"one of {', '.join(ENGINES)}")
    if wanted != "auto":
        return wanted
    if settings.WORLD.value:
        return "shm"
    return "mpi" if started_with() > 1 else "local"


def world_of(config: DistributedConfig | None) -> int:
    """How many ranks a call has."""
    return _world(chosen(config), config)


def _world(engine: str, config: DistributedConfig | None) -> int:
    if engine == "local":
        return len(config.device_ids) if config is not None else 1
    processes = started_with()
    if config is not None and len(config.device_ids) != processes:
        raise ArgumentError(
            f"device_ids has {len(config.device_ids)} ranks, the job {processes} processes", help="leave distributed_config out, or give an id per process"
        )
    return processes


class Held:
    """An engine for one call: threads get one of their own, a job has one."""

    def __init__(self, config: DistributedConfig | None) -> None:
        self.name = chosen(config)
        self.world = _world(self.name, config)

    def __enter__(self) -> Engine:
        if self.name != "local":
            self.engine = _joined(self.name)
            _job_lock.acquire()
            return self.engine
        with _lock:
            free = _idle.setdefault(self.world, [])
            self.engine = free.pop() if free else Engine(self.world, range(self.world))
        return self.engine

    def __exit__(self, *_: object) -> None:
        if self.name != "local":
            _job_lock.release()
            return
        with _lock:
            _idle[self.world].append(self.engine)


_job_lock = new_lock()


def leave() -> None:
    """Leave the job of this process; the next call joins it anew, if all processes do so."""
    with _lock:
        if _job:
            _job.pop().leave()


def _joined(name: str) -> Engine:
    """The job of this process, joined at the first call."""
    with _lock:
        if not _job:
            from tilejit.runtime.ranks import jobs

            _job.append(jobs.join_launched() if name == "shm" else jobs.join_mpi())
    return _job[0]
