"""`python -m tests.ranks.failing HOW…`, as one process of a job: what goes wrong is printed, and a good call works after each failure."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks import signals
from tilejit.errors import DistributedError, TilejitError
from tilejit.runtime import DistributedConfig, RunConfig
from tilejit.runtime.ranks import engines
from tilejit.runtime.ranks.abi import Record

MINE = int(os.environ.get("TILEJIT_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
FACTOR = 2.0 + (MINE == 1 and "constant" in sys.argv)


@pl.jit
def lonely(y: pl.Out[pl.Tensor[[1, 1], pl.INT32]], sig: pld.DistributedTensor[[1, 1], pl.INT32], me: pl.Scalar[pl.INT32]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.device_assert(me != 7)
        pld.system.wait(sig, [0, 0], 1, cmp=pld.WaitCmp.Ge)
        pl.write(y, [0, 0], pl.read(sig, [0, 0]))


@pl.jit.host
def all_wait(y: pl.Out[pl.Tensor[[signals.NR, 1, 1], pl.INT32]], shift: pl.Scalar[pl.INT32]):
    cells = pld.alloc_window_buffer([1, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        lonely(y[r], pld.window(cells, [1, 1], dtype=pl.INT32), r + shift, device=r)


@pl.jit
def times(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]]):
    y[:] = x * FACTOR


@pl.jit.host
def all_times(x: pl.Tensor[[signals.NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[signals.NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        times(x[r], y[r], device=r)


def die_when_others_wait() -> None:
    """Rank 1 ends as soon as the others have entered the call."""
    with engines.Held(None) as engine:
        while not all(engine.records[rank, Record.CALL] > engine.calls for rank in range(engine.world) if rank != MINE):
            time.sleep(1e-3)
    os.kill(os.getpid(), signal.SIGKILL)


def fail(how: str, world: int) -> None:
    """What goes wrong."""
    waiting = np.zeros((world, 1, 1), np.int32)
    rows = np.ones((world, 8), np.float32)
    if how == "deadlock":
        all_wait(waiting, 0)
    elif how == "assert":
        all_wait(waiting, 6)
    elif how == "killed":
        if MINE == 1:
            die_when_others_wait()
        all_wait(waiting, 0)
    elif how == "constant":
        all_times(rows, np.empty_like(rows))
    elif how == "shapes":
        signals.hello(np.ones((world + (MINE == 0), 8, 16), np.float32))
    else:
        all_times(rows, np.empty_like(rows), config=RunConfig(distributed_config=DistributedConfig(list(range(world + 1)))))


def main(ways: list[str]) -> None:
    world = engines.started_with()
    x = np.arange(world * 128, dtype=np.float32).reshape(world, 8, 16)
    for how in ways:
        try:
            fail(how, world)
        except TilejitError as error:
            ranks = error.ranks if isinstance(error, DistributedError) else ()
            print(f"{how}: {type(error).__name__} {list(ranks)} | {error.message} | {' ; '.join(error.where)}", flush=True)
            if how == "killed":
                sys.exit(3)
        assert np.array_equal(signals.shift(x), np.roll(x, 1, axis=0))
        print(f"{how}: good again", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
