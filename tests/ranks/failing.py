"""`python -m tests.ranks.failing HOW…`, as one process of a job: what goes wrong is printed, and a good call works after each failure."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks import signals
from tilejit import float_mode
from tilejit.errors import DistributedError, ProgramMismatchError, TilejitError
from tilejit.runtime import DistributedConfig, RunConfig
from tilejit.runtime.ranks import engines

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


ALLREDUCE, BARRIER, FROM_0, FROM_1, NOTHING, PUT = range(6)


@pl.jit
def act(
    x: pl.Tensor[[2, 8], pl.FP32], win: pld.DistributedTensor[[2, 8], pl.FP32], sig: pld.DistributedTensor, how: pl.Scalar[pl.INT32], peer: pl.Scalar[pl.INT32]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        if how == ALLREDUCE:
            pld.tensor.allreduce(win, sig)
        if how == BARRIER:
            pld.tensor.barrier(sig)
        if how == FROM_0:
            pld.tensor.broadcast(win, sig, root=0)
        if how == FROM_1:
            pld.tensor.broadcast(win, sig, root=1)
        if how == PUT:
            pld.tensor.put(win, peer % 7, x, [peer // 7, 0], [0, 0], [2, 8])


@pl.jit.host
def acts(x: pl.Tensor[[2, 8], pl.FP32], first: pl.Scalar[pl.INT32], others: pl.Scalar[pl.INT32], peer: pl.Scalar[pl.INT32]):
    """Rank 0 does one thing, the others another one."""
    data = pld.alloc_window_buffer([2, 8], dtype=pl.FP32)
    cells = pld.alloc_window_buffer([pld.world_size(), 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        sig = pld.window(cells, [pld.world_size(), 1], dtype=pl.INT32)
        act(x, pld.window(data, [2, 8], dtype=pl.FP32), sig, first if r == 0 else others, peer, device=r)


ACTS = {
    "mismatch": (ALLREDUCE, BARRIER, 0),
    "roots": (FROM_0, FROM_1, 0),
    "left_out": (ALLREDUCE, NOTHING, 0),
    "peer": (NOTHING, PUT, 6),
    "bounds": (NOTHING, PUT, 7),
}
"""What rank 0 does, what the others do, and the peer and row of a put."""


@pl.jit
def times(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]]):
    y[:] = x * FACTOR


@pl.jit.host
def all_times(x: pl.Tensor[[signals.NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[signals.NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        times(x[r], y[r], device=r)


@pl.jit
def scaled(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]], by: pl.Scalar[pl.FP32]):
    y[:] = x * by


@pl.jit.host
def all_times_elsewhere(x: pl.Tensor[[signals.NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[signals.NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        scaled(x[(r + MINE) % 2], y[r], 2.0, device=r)


@pl.jit.host
def all_times_more(x: pl.Tensor[[signals.NR, 8], pl.FP32], y: pl.Out[pl.Tensor[[signals.NR, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        scaled(x[r], y[r], 2.0 + MINE, device=r)


OTHER_SETTINGS = {"TILEJIT_FAST_MATH": "0", "TILEJIT_PLATFORM": "reference"}
"""What one process says of settings that the others leave alone."""
DOWN = 0x2000
"""How one process rounds, in the bits of MXCSR."""


def fail(how: str, world: int) -> None:
    """What goes wrong."""
    waiting = np.zeros((world, 1, 1), np.int32)
    rows = np.ones((world, 8), np.float32)
    if how == "deadlock":
        all_wait(waiting, 0, config=RunConfig(distributed_config=DistributedConfig(list(range(world)), timeout_s=1.0)))
    elif how == "assert":
        all_wait(waiting, 6)
    elif how in ACTS:
        acts(rows[:2], *ACTS[how])
    elif how == "leaves":
        all_times(rows, np.empty_like(rows))
        if MINE == 1:
            sys.exit(0)
        all_wait(waiting, 0)
    elif how == "constant":
        all_times(rows, np.empty_like(rows))
    elif how in OTHER_SETTINGS:
        with pytest.MonkeyPatch.context() as patch:
            if MINE == 1:
                patch.setenv(how, OTHER_SETTINGS[how])
            with pytest.raises(ProgramMismatchError) as caught:
                all_times(rows, np.empty_like(rows))
        assert caught.value.hint == f"set {how} to one value for all processes, or for none"
        raise caught.value
    elif how == "rounding":
        with float_mode.held(DOWN if MINE == 1 else float_mode.STANDARD):
            all_times(rows, np.empty_like(rows))
    elif how == "slices":
        all_times_elsewhere(rows, np.empty_like(rows))
    elif how == "scalars":
        all_times_more(rows, np.empty_like(rows))
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
            caret = next((line.strip(" |") for line in str(error).splitlines() if "^" in line), "")
            print(f"{MINE} {how}: {type(error).__name__} {list(ranks)} | {error.message} | {' ; '.join(error.where)} | {caret}", flush=True)
            if how == "leaves":
                sys.exit(3)
        assert np.array_equal(signals.shift(x), np.roll(x, 1, axis=0))
        print(f"{MINE} {how}: good again", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
