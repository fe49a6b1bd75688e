"""Ranks as threads of one process: signals, puts and allreduces against memcpy, gloo and MPI, and what more ranks cost."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measure import Pair, Target

import tilejit.language as pl
import tilejit.language.distributed as pld
from tilejit import RunConfig
from tilejit.runtime import DistributedConfig

NR = pl.dynamic("NR")
ROWS, COLUMNS = 1024, 4096
"""16 MB of FP32."""
ROUNDS = 100_000
ROUND_TRIP_S = 2e-6


@pl.jit
def rally(y: pl.Out[pl.Tensor[[1, 1], pl.INT32]], sig: pld.DistributedTensor[[2, 1], pl.INT32], rounds: pl.Scalar[pl.INT32], me: pl.Scalar[pl.INT32]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(1, rounds + 1):
            if me == 0:
                pld.system.notify(sig, 1, [0, 0], 1, op=pld.NotifyOp.AtomicAdd)
                pld.system.wait(sig, [1, 0], i, cmp=pld.WaitCmp.Ge)
            else:
                pld.system.wait(sig, [0, 0], i, cmp=pld.WaitCmp.Ge)
                pld.system.notify(sig, 0, [1, 0], 1, op=pld.NotifyOp.AtomicAdd)
        pl.write(y, [0, 0], pl.read(sig, [0, 0]))


@pl.jit.host
def rallies(y: pl.Out[pl.Tensor[[2, 1, 1], pl.INT32]], rounds: pl.Scalar[pl.INT32]):
    cells = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
    for r in pl.range(2):
        rally(y[r], pld.window(cells, [2, 1], dtype=pl.INT32), rounds, r, device=r)


@pl.jit
def sender(x: pl.Tensor[[ROWS, COLUMNS], pl.FP32], win: pld.DistributedTensor[[ROWS, COLUMNS], pl.FP32], times: pl.Scalar[pl.INT32]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for _i in pl.range(times):
            pld.tensor.put(win, 1, x)


@pl.jit
def listener(y: pl.Out[pl.Tensor[[1, 1], pl.FP32]], win: pld.DistributedTensor[[ROWS, COLUMNS], pl.FP32]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.write(y, [0, 0], pl.read(win, [0, 0]))


@pl.jit.host
def puts(x: pl.Tensor[[ROWS, COLUMNS], pl.FP32], y: pl.Out[pl.Tensor[[1, 1], pl.FP32]], times: pl.Scalar[pl.INT32]):
    data = pld.alloc_window_buffer([ROWS, COLUMNS], dtype=pl.FP32)
    sender(x, pld.window(data, [ROWS, COLUMNS], dtype=pl.FP32), times, device=0)
    listener(y, pld.window(data, [ROWS, COLUMNS], dtype=pl.FP32), device=1)


@pl.jit
def reduce(
    y: pl.Out[pl.Tensor[[1, 1], pl.FP32]],
    win: pld.DistributedTensor[[ROWS, COLUMNS], pl.FP32],
    sig: pld.DistributedTensor[[NR, 1], pl.INT32],
    times: pl.Scalar[pl.INT32],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        for _i in pl.range(times):
            pld.tensor.allreduce(win, sig)
        pl.write(y, [0, 0], pl.read(win, [0, 0]))


@pl.jit.host
def reduces(y: pl.Out[pl.Tensor[[NR, 1, 1], pl.FP32]], times: pl.Scalar[pl.INT32]):
    data = pld.alloc_window_buffer([ROWS, COLUMNS], dtype=pl.FP32)
    cells = pld.alloc_window_buffer([NR, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        reduce(y[r], pld.window(data, [ROWS, COLUMNS], dtype=pl.FP32), pld.window(cells, [NR, 1], dtype=pl.INT32), times, device=r)


@pl.jit
def small(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]]):
    y[:] = x * 2.0


@pl.jit.host
def all_small(x: pl.Tensor[[NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        small(x[r], y[r], device=r)


def on(world: int) -> RunConfig:
    return RunConfig(distributed_config=DistributedConfig(list(range(world)), threads_per_rank=1))


def per_turn(call: Callable[[int], object], turns: int) -> float:
    """Seconds of one turn inside a launch: what a launch costs is taken off."""
    spent: list[float] = []
    for count in (1, 1 + turns):
        start = time.perf_counter()
        call(count)
        spent.append(time.perf_counter() - start)
    return max(spent[1] - spent[0], 1e-9) / turns


def cases() -> Iterator[Pair]:
    y = np.zeros((2, 1, 1), np.int32)
    trip = Target(1.0, 1e6 * ROUND_TRIP_S)
    yield Pair(
        "notify/wait round trip", "2 µs", lambda: per_turn(lambda n: rallies(y, n, config=on(2)), ROUNDS), lambda: ROUND_TRIP_S, self_timed=True, target=trip
    )
    x, copy, one = np.ones((ROWS, COLUMNS), np.float32), np.empty((ROWS, COLUMNS), np.float32), np.zeros((1, 1), np.float32)
    yield Pair(
        "put of 16 MB", "memcpy", lambda: per_turn(lambda n: puts(x, one, n, config=on(2)), 16), lambda: _timed(lambda: np.copyto(copy, x)),
        self_timed=True, target=Target(1 / 0.8),
    )  # fmt: skip
    sums = np.zeros((2, 1, 1), np.float32)
    ours = lambda: per_turn(lambda n: reduces(sums, n, config=on(2)), 8)  # noqa: E731
    if importlib.util.find_spec("torch") is not None:
        yield Pair("allreduce of 16 MB, 2 ranks", "torch gloo", ours, lambda: _peer("gloo"), samples=5, self_timed=True, target=Target(1.0))
    if importlib.util.find_spec("mpi4py") is not None and _mpirun() is not None:
        yield Pair("allreduce of 16 MB, 2 ranks", "mpi4py", ours, lambda: _peer("mpi"), samples=5, self_timed=True, target=Target(1 / 0.9))
    row, out = np.ones((1, 8), np.float32), np.empty((1, 8), np.float32)
    yield Pair("a warm call of a host function, 1 rank", "its kernel called alone", lambda: all_small(row, out, config=on(1)), lambda: small(row[0], out[0]))
    for world in (2, 4, 8):
        many, alone = np.zeros((world, 1, 1), np.float32), np.zeros((1, 1, 1), np.float32)
        yield Pair(
            f"a call of {world} ranks", "a call of 1 rank", lambda many=many, world=world: reduces(many, 0, config=on(world)),
            lambda alone=alone: reduces(alone, 0, config=on(1)),
        )  # fmt: skip


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(8):
        call()
    return (time.perf_counter() - start) / 8


def _mpirun() -> str | None:
    return shutil.which("mpirun", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))


_PEERS = {
    "gloo": """
import json, sys, time, torch, torch.distributed as dist, torch.multiprocessing as mp
def run(rank, path):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    x = torch.ones(4 << 20)
    dist.all_reduce(x)
    dist.barrier()
    start = time.perf_counter()
    for _ in range(8):
        dist.all_reduce(x)
    if rank == 0:
        print(json.dumps((time.perf_counter() - start) / 8))
    dist.barrier()
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.start_processes(run, (sys.argv[1],), nprocs=2, start_method="spawn")
""",
    "mpi": """
import json, time, numpy as np
from mpi4py import MPI
world, x = MPI.COMM_WORLD, np.ones(4 << 20, np.float32)
world.Allreduce(MPI.IN_PLACE, x)
world.Barrier()
start = time.perf_counter()
for _ in range(8):
    world.Allreduce(MPI.IN_PLACE, x)
if world.Get_rank() == 0:
    print(json.dumps((time.perf_counter() - start) / 8))
""",
}


def _peer(name: str) -> float:
    """Seconds that two processes of a peer take."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "peer.py"
        script.write_text(_PEERS[name])
        launcher: list[Any] = [_mpirun(), "--oversubscribe", "-n", "2"] if name == "mpi" else []
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        done = subprocess.run([*launcher, sys.executable, str(script), f"{folder}/meet"], env=environment, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.strip().splitlines()[-1]))
