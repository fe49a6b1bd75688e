"""Jobs of several processes: those that `tilejit launch` started, and those that MPI started on one machine."""

from __future__ import annotations

import os
import tempfile
from importlib import import_module
from typing import Any

from tilejit import config as settings
from tilejit.errors import DistributedError, PlatformError
from tilejit.runtime.ranks import interpreted
from tilejit.runtime.ranks.engine import Engine

_SHARED = "/dev/shm"


def join_launched() -> Engine:
    """The job of `tilejit launch`, whose memory this process inherited."""
    number, _, lock = settings.JOB.value.partition(":")
    if not number.isdigit() or settings.RANK.value < 0:
        raise PlatformError("this process was not started by `tilejit launch`", help="tilejit launch -n 2 app.py")
    engine = Engine(settings.WORLD.value, [settings.RANK.value], int(number))
    engine.name = "shm"
    interpreted.share_lock(lock or None)
    engine.join(settings.WAIT_TIMEOUT.value)
    return engine


def join_mpi() -> Engine:
    """The processes of MPI.COMM_WORLD: those of one machine share memory, which is found through MPI."""
    try:
        mpi: Any = import_module("mpi4py.MPI")
    except ImportError as error:
        raise PlatformError("this is a process of MPI, and mpi4py is not there", help="pip install 'tilejit[mpi]'") from error
    world = mpi.COMM_WORLD
    rank, count = int(world.Get_rank()), int(world.Get_size())
    near = world.Split_type(mpi.COMM_TYPE_SHARED)
    if near.Get_size() != count:
        machines = f"{near.Get_size()} of {count} processes are on this machine"
        raise DistributedError(f"windows between machines are not there yet: {machines}", help="start all ranks on one machine")
    path = None
    if rank == 0:
        handle, path = tempfile.mkstemp(prefix="tilejit-", dir=_SHARED if os.path.isdir(_SHARED) else None)
        os.close(handle)
    path = world.bcast(path, root=0)
    fd = os.open(path, os.O_RDWR)
    interpreted.share_lock(path)
    world.Barrier()
    if rank == 0:
        os.unlink(path)  # everybody has it open: nothing is left behind, whatever happens
    engine = Engine(count, [rank], fd)
    engine.name = "mpi"
    world.Barrier()
    engine.join(settings.WAIT_TIMEOUT.value)
    return engine
