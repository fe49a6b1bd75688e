"""A small mixture of experts: counts, data-dependent puts from blocks, experts, and the way back, twice in one launch."""

from __future__ import annotations

import tilejit.language as pl
import tilejit.language.distributed as pld

NR = pl.dynamic("NR")
T, D, BLOCKS, EPOCHS = 6, 8, 2, 2


@pl.jit.inline
def announce(sig: pld.DistributedTensor[[3, 1], pl.INT32], first: int, n: pl.Scalar[pl.INT32]):
    for q in pl.range(n):
        pld.system.notify(sig, q, [first, 0], 1, op=pld.NotifyOp.AtomicAdd)


@pl.jit
def moe(
    x: pl.Tensor[[T, D], pl.FP32],
    dest: pl.Tensor[[T, 1], pl.INT32],
    y: pl.Out[pl.Tensor[[T, D], pl.FP32]],
    counts: pld.DistributedTensor[[NR, 16], pl.INT32],
    inbox: pld.DistributedTensor[[NR, T, D], pl.FP32],
    back: pld.DistributedTensor[[T, D], pl.FP32],
    sig: pld.DistributedTensor[[3, 1], pl.INT32],
    me: pl.Scalar[pl.INT32],
):
    n = pld.nranks(pld.get_comm_ctx(sig))
    for e in pl.range(EPOCHS):
        with pl.at(level=pl.Level.CORE_GROUP):
            row = pl.create_tensor([1, 16], pl.INT32, init_value=0)
            for t in pl.range(T):
                q = pl.cast(pl.read(dest, [t, 0]), pl.INDEX)
                pl.write(row, [0, q], pl.read(row, [0, q]) + 1)
            for q in pl.range(n):
                pld.remote_store(pl.load(row, [0, 0], [1, 16]), counts, q, [me, 0])
            announce(sig, 0, n)
            pld.system.wait(sig, [0, 0], (e + 1) * n, cmp=pld.WaitCmp.Ge)
        for b in pl.spmd(BLOCKS):
            for i in pl.range(T // BLOCKS):
                t = b * (T // BLOCKS) + i
                q = pl.read(dest, [t, 0])
                slot = pl.const(0, pl.INT32)
                for before in pl.range(t):
                    if pl.read(dest, [before, 0]) == q:
                        slot = slot + 1
                place = pl.cast(slot, pl.INDEX)
                pld.tensor.put(inbox, q, pl.reshape(x, [1, T, D]), [me, place, 0], [0, t, 0], [1, 1, D])
            announce(sig, 1, n)
        with pl.at(level=pl.Level.CORE_GROUP):
            pld.system.wait(sig, [1, 0], (e + 1) * n * BLOCKS, cmp=pld.WaitCmp.Ge)
            for q in pl.range(n):
                got = pl.read(counts, [q, pl.cast(me, pl.INDEX)])
                for i in pl.range(T):
                    if i < got:
                        tile = pl.load(inbox, [q, i, 0], [1, 1, D])
                        pl.store(tile * pl.cast(me + 2, pl.FP32), [q, i, 0], inbox)
            announce(sig, 2, n)
            pld.system.wait(sig, [2, 0], (2 * e + 1) * n, cmp=pld.WaitCmp.Ge)
            for t in pl.range(T):
                q = pl.read(dest, [t, 0])
                slot = pl.const(0, pl.INT32)
                for before in pl.range(t):
                    if pl.read(dest, [before, 0]) == q:
                        slot = slot + 1
                pld.tensor.get(pl.reshape(back, [1, T, D]), q, inbox, [0, t, 0], [me, pl.cast(slot, pl.INDEX), 0], [1, 1, D])
            announce(sig, 2, n)
            pld.system.wait(sig, [2, 0], (2 * e + 2) * n, cmp=pld.WaitCmp.Ge)
            y[:, :] = back


@pl.jit.host
def mixture(x: pl.Tensor[[NR, T, D], pl.FP32], dest: pl.Tensor[[NR, T, 1], pl.INT32], y: pl.Out[pl.Tensor[[NR, T, D], pl.FP32]]):
    counts = pld.alloc_window_buffer([NR, 16], dtype=pl.INT32)
    boxes = pld.alloc_window_buffer([NR, T, D], dtype=pl.FP32)
    returned = pld.alloc_window_buffer([T, D], dtype=pl.FP32)
    cells = pld.alloc_window_buffer([3, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        windows = (pld.window(counts, [NR, 16], dtype=pl.INT32), pld.window(boxes, [NR, T, D], dtype=pl.FP32))
        back, sig = pld.window(returned, [T, D], dtype=pl.FP32), pld.window(cells, [3, 1], dtype=pl.INT32)
        moe(x[r], dest[r], y[r], windows[0], windows[1], back, sig, r, device=r)
