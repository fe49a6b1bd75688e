"""Programs whose waits stand before the notifies that end them."""

from __future__ import annotations

import tilejit.language as pl
import tilejit.language.distributed as pld

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
