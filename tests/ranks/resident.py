"""Programs of which something stays with the ranks from call to call."""

from __future__ import annotations

import tilejit.language as pl
import tilejit.language.distributed as pld

NR = pl.dynamic("NR")


@pl.jit
def scale(x: pl.Tensor[[2, 8], pl.FP32], w: pl.Tensor[[8], pl.FP32], total: pl.InOut[pl.Tensor[[2, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total[:, :] = total + pl.col_expand_mul(x, pl.reshape(w, [1, 8]))


@pl.jit.host
def scaled(x: pl.Tensor[[NR, 2, 8], pl.FP32], w: pl.Tensor[[NR, 8], pl.FP32], total: pl.InOut[pl.Tensor[[NR, 2, 8], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        scale(x[r], w[r], total[r], device=r)


@pl.jit
def count(y: pl.Out[pl.Tensor[[1, 1], pl.INT32]], sig: pld.DistributedTensor[[1, 1], pl.INT32]):
    with pl.at(level=pl.Level.CORE_GROUP):
        me = pld.rank(pld.get_comm_ctx(sig))
        pl.write(y, [0, 0], pl.read(sig, [0, 0]))
        pld.system.notify(sig, me, [0, 0], 5, op=pld.NotifyOp.AtomicAdd)


@pl.jit.host
def counted(y: pl.Out[pl.Tensor[[NR, 1, 1], pl.INT32]]):
    cells = pld.alloc_window_buffer([1, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        count(y[r], pld.window(cells, [1, 1], dtype=pl.INT32), device=r)
