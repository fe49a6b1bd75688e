"""Regions that wait do not hold up those that follow, where the program says so."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit.language as pl
import tilejit.language.distributed as pld
from tests.ranks.engines import PLATFORMS, on
from tilejit.errors import DeadlockError

N = 64
NR = pl.dynamic("NR")


@pl.jit
def deferred(y: pl.Out[pl.Tensor[[1, 1], pl.INT32]], sig: pld.DistributedTensor[[N, 1], pl.INT32], publish: pl.Scalar[pl.INT32]):
    with pl.at(level=pl.Level.CORE_GROUP) as here:
        for i in pl.range(N):
            pld.system.defer_wait(sig, [i, 0], 1, cmp=pld.WaitCmp.Ge)
    with pl.at(level=pl.Level.CORE_GROUP, deps=[here]):
        total = pl.const(0, pl.INT32)
        for i in pl.range(N):
            total = total + pl.read(sig, [i, 0])
        pl.write(y, [0, 0], total)
    with pl.at(level=pl.Level.CORE_GROUP):
        ctx = pld.get_comm_ctx(sig)
        for i in pl.range(N):
            if publish > 0:
                pld.system.notify(sig, (pld.rank(ctx) + 1) % pld.nranks(ctx), [i, 0], 1, op=pld.NotifyOp.AtomicAdd)


@pl.jit
def scoped(y: pl.Out[pl.Tensor[[1, 1], pl.INT32]], sig: pld.DistributedTensor[[N, 1], pl.INT32], publish: pl.Scalar[pl.INT32]):
    with pl.manual_scope():
        with pl.at(level=pl.Level.CORE_GROUP) as here:
            pld.system.wait(sig, [3, 0], 1, cmp=pld.WaitCmp.Ge)
        with pl.at(level=pl.Level.CORE_GROUP, deps=[here]):
            pl.write(y, [0, 0], pl.cast(N, pl.INT32))
        with pl.at(level=pl.Level.CORE_GROUP):
            ctx = pld.get_comm_ctx(sig)
            if publish > 0:
                pld.system.notify(sig, (pld.rank(ctx) + 1) % pld.nranks(ctx), [3, 0], 1, op=pld.NotifyOp.AtomicAdd)


@pl.jit.host
def run_deferred(y: pl.Out[pl.Tensor[[NR, 1, 1], pl.INT32]], publish: pl.Scalar[pl.INT32]):
    cells = pld.alloc_window_buffer([N, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        deferred(y[r], pld.window(cells, [N, 1], dtype=pl.INT32), publish, device=r)


@pl.jit.host
def run_scoped(y: pl.Out[pl.Tensor[[NR, 1, 1], pl.INT32]], publish: pl.Scalar[pl.INT32]):
    cells = pld.alloc_window_buffer([N, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        scoped(y[r], pld.window(cells, [N, 1], dtype=pl.INT32), publish, device=r)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("run", [run_deferred, run_scoped], ids=["defer_wait", "manual_scope"])
def test_the_publisher_behind_the_waits_is_reached(run: pl.JITFunction, platform: str) -> None:
    for world in (1, 2, 3):
        y = np.zeros((world, 1, 1), np.int32)
        run(y, 1, config=on(world, platform))
        assert y.ravel().tolist() == [N] * world


@pytest.mark.parametrize("run", [run_deferred, run_scoped], ids=["defer_wait", "manual_scope"])
def test_without_a_publisher_it_is_a_deadlock(run: pl.JITFunction) -> None:
    with pytest.raises(DeadlockError) as caught:
        run(np.zeros((2, 1, 1), np.int32), 0, config=on(2))
    assert len(caught.value.where) == 2
