"""Jobs of several processes: those that `tilejit launch` started, and those that MPI started on one or more machines."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
from importlib import import_module
from typing import Any

from tilejit import config as settings
from tilejit.errors import PlatformError
from tilejit.runtime.ranks import interpreted, words
from tilejit.runtime.ranks.abi import Record, State, Stop
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
    """The processes of MPI.COMM_WORLD: those of one machine share memory, and machines reach each other through MPI."""
    try:
        mpi: Any = import_module("mpi4py.MPI")
    except ImportError as error:
        raise PlatformError("this is a process of MPI, and mpi4py is not there", help="pip install 'tilejit[mpi]'") from error
    world = mpi.COMM_WORLD
    rank, count = int(world.Get_rank()), int(world.Get_size())
    near, nodes = _near(mpi, world)
    path = None
    if near.Get_rank() == 0:
        handle, path = tempfile.mkstemp(prefix="tilejit-", dir=_SHARED if os.path.isdir(_SHARED) else None)
        os.close(handle)
    path = near.bcast(path, root=0)
    fd = os.open(path, os.O_RDWR)
    interpreted.share_lock(path)
    near.Barrier()
    if near.Get_rank() == 0:
        os.unlink(path)  # everybody has it open: nothing is left behind, whatever happens
    engine = Engine(count, [rank], fd, nodes)
    engine.name = "mpi"
    world.Barrier()
    if len(nodes) > 1:
        engine.connect(mpi)
    atexit.register(_leave, engine, mpi)
    engine.join(settings.WAIT_TIMEOUT.value)
    return engine


def _near(mpi: Any, world: Any) -> tuple[Any, list[tuple[int, ...]]]:
    """The communicator of the processes on this machine, and the ranks of each machine."""
    shared = world.Split_type(mpi.COMM_TYPE_SHARED)
    count = settings.RANKS_PER_NODE.value
    near = shared.Split(world.Get_rank() // count if count else 0, world.Get_rank())
    own = tuple(near.allgather(int(world.Get_rank())))
    return near, sorted(set(world.allgather(own)))


def _leave(engine: Engine, mpi: Any) -> None:
    """The end of this process: others need not wait for it, and it does not wait for one that is dead."""
    engine.leave()
    reason, rank = engine.stopped()
    if reason is Stop.DEAD and words.word(engine.record(rank), Record.STATE) != State.LEFT:
        sys.stdout.flush()
        sys.stderr.flush()
        mpi.COMM_WORLD.Abort(1)
