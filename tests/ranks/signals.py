"""Programs of ranks that signal each other and move data; the tests run them on every engine."""

from __future__ import annotations

import tilejit.language as pl
import tilejit.language.distributed as pld

NR = pl.dynamic("NR")
M = pl.dynamic("M")
ROUNDS = 50


@pl.jit
def scale(x: pl.Tensor[[8, 16], pl.FP32], y: pl.Out[pl.Tensor[[8, 16], pl.FP32]], r: pl.Scalar[pl.INT32]):
    y[:] = x * pl.cast(r + 1, pl.FP32)


@pl.jit.host
def hello(x: pl.Tensor[[NR, 8, 16], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8, 16], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        scale(x[r], y[r], r, device=r)


# ring shift -------------------------------------------------------------------------------------------------------------


@pl.jit
def ring_put(
    x: pl.Tensor[[8, 16], pl.FP32],
    y: pl.Out[pl.Tensor[[8, 16], pl.FP32]],
    win: pld.DistributedTensor[[8, 16], pl.FP32],
    sig: pld.DistributedTensor[[1, 1], pl.INT32],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        ctx = pld.get_comm_ctx(win)
        peer = (pld.rank(ctx) + 1) % pld.nranks(ctx)
        pld.tensor.put(win, peer=peer, src=x, chunk_rows=2, chunk_cols=8, pipeline=True)
        pld.system.notify(sig, peer, [0, 0], 1, op=pld.NotifyOp.AtomicAdd)
        pld.system.wait(sig, [0, 0], 1, cmp=pld.WaitCmp.Ge)
        pl.store(pl.load(win, [0, 0], [8, 16]), [0, 0], y)


@pl.jit.host
def shift(x: pl.Tensor[[NR, 8, 16], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8, 16], pl.FP32]]):
    data = pld.alloc_window_buffer([8, 16], dtype=pl.FP32)
    cells = pld.alloc_window_buffer([1, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        win = pld.window(data, [8, 16], dtype=pl.FP32)
        sig = pld.window(cells, [1, 1], dtype=pl.INT32)
        ring_put(x[r], y[r], win, sig, device=r)


@pl.jit
def ring_get(
    x: pl.Tensor[[8, 16], pl.FP32],
    y: pl.Out[pl.Tensor[[8, 16], pl.FP32]],
    win: pld.DistributedTensor[[8, 16], pl.FP32],
    sig: pld.DistributedTensor[[2, 1], pl.INT32],
):
    ctx = pld.get_comm_ctx(win)
    n = pld.nranks(ctx)
    after = (pld.rank(ctx) + 1) % n
    before = (pld.rank(ctx) + n - 1) % n
    with pl.at(level=pl.Level.CORE_GROUP):
        win[:, :] = x
        pld.system.notify(sig, before, [0, 0], 1, op=pld.NotifyOp.Set)
        pld.system.wait(sig, [0, 0], 1, cmp=pld.WaitCmp.Eq)
        pld.tensor.get(y, peer=after, src=win)
        pld.system.notify(sig, after, [1, 0], 1, op=pld.NotifyOp.Set)
        pld.system.wait(sig, [1, 0], 1, cmp=pld.WaitCmp.Eq)


@pl.jit.host
def shift_back(x: pl.Tensor[[NR, 8, 16], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8, 16], pl.FP32]]):
    data = pld.alloc_window_buffer(8 * 16 * 4)
    cells = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        ring_get(x[r], y[r], pld.window(data, [8, 16], dtype=pl.FP32), pld.window(cells, [2, 1], dtype=pl.INT32), device=r)


@pl.jit
def ring_staged(
    x: pl.Tensor[[8, 16], pl.FP32],
    y: pl.Out[pl.Tensor[[8, 16], pl.FP32]],
    back: pl.InOut[pl.Tensor[[8, 16], pl.FP32]],
    win: pld.DistributedTensor[[8, 16], pl.FP32],
    sig: pld.DistributedTensor[[2, 1], pl.INT32],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        ctx = pld.get_comm_ctx(win)
        n = pld.nranks(ctx)
        after = (pld.rank(ctx) + 1) % n
        stage = pl.tile.create([2, 8], pl.FP32)
        pld.tile.put(win, after, x, stage, stage)
        pld.system.notify(sig, after, [0, 0], 1, op=pld.NotifyOp.Set)
        pld.system.wait(sig, [0, 0], 1, cmp=pld.WaitCmp.Eq)
        pl.store(pl.load(win, [0, 0], [8, 16]), [0, 0], y)
        pld.tile.get(back, after, win, stage, [n // n, 2], [3, 4], [5, 6])
        pld.system.notify(sig, after, [1, 0], 1, op=pld.NotifyOp.Set)
        pld.system.wait(sig, [1, 0], 1, cmp=pld.WaitCmp.Eq)


@pl.jit.host
def shift_staged(x: pl.Tensor[[NR, 8, 16], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8, 16], pl.FP32]], back: pl.InOut[pl.Tensor[[NR, 8, 16], pl.FP32]]):
    data = pld.alloc_window_buffer([8, 16], dtype=pl.FP32)
    cells = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        ring_staged(x[r], y[r], back[r], pld.window(data, [8, 16], dtype=pl.FP32), pld.window(cells, [2, 1], dtype=pl.INT32), device=r)


@pl.jit
def boxes(
    x: pl.Tensor[[6, 10], pl.INT32],
    y: pl.Out[pl.Tensor[[9, 14], pl.INT32]],
    win: pld.DistributedTensor[[9, 14], pl.INT32],
    sig: pld.DistributedTensor[[1], pl.INT32],
    row: pl.Scalar[pl.INT32],
    rows: pl.Scalar[pl.INT32],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        ctx = pld.get_comm_ctx(win)
        peer = (pld.rank(ctx) + 1) % pld.nranks(ctx)
        pld.tensor.put(win, peer, x, [row + 1, 3], [row, 2], [rows, 7])
        pld.system.notify(sig, peer, [0], 1, op=pld.NotifyOp.AtomicAdd)
        pld.system.wait(sig, [0], 1, cmp=pld.WaitCmp.Ge)
        y[:, :] = win


@pl.jit.host
def put_boxes(x: pl.Tensor[[NR, 6, 10], pl.INT32], y: pl.Out[pl.Tensor[[NR, 9, 14], pl.INT32]], row: pl.Scalar[pl.INT32], rows: pl.Scalar[pl.INT32]):
    data = pld.alloc_window_buffer([9, 14], dtype=pl.INT32)
    cells = pld.alloc_window_buffer([1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        boxes(x[r], y[r], pld.window(data, [9, 14], dtype=pl.INT32), pld.window(cells, [1], dtype=pl.INT32), row, rows, device=r)


# release and acquire ----------------------------------------------------------------------------------------------------


@pl.jit
def ping_pong(
    bad: pl.Out[pl.Tensor[[1, 1], pl.INT32]],
    win: pld.DistributedTensor[[8, 128], pl.INT32],
    sig: pld.DistributedTensor[[2, 1], pl.INT32],
    rounds: pl.Scalar[pl.INT32],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        me = pld.rank(pld.get_comm_ctx(win))
        wrong = pl.const(0, pl.INT32)
        for i in pl.range(1, rounds + 1):
            if me == 0:
                tile = pl.tile.full([8, 128], pl.INT32, pl.cast(i, pl.INT32))
                pld.remote_store(tile, win, 1, [0, 0])
                pld.system.notify(sig, 1, [0, 0], 1, op=pld.NotifyOp.AtomicAdd)
                pld.system.wait(sig, [1, 0], i, cmp=pld.WaitCmp.Ge)
            else:
                pld.system.wait(sig, [0, 0], i, cmp=pld.WaitCmp.Ge)
                high = pl.row_max(pl.col_max(win))
                low = pl.row_min(pl.col_min(win))
                here = pl.cast(i, pl.INT32)
                if pl.read(high, [0, 0]) != here:
                    wrong = wrong + 1
                if pl.read(low, [0, 0]) != here:
                    wrong = wrong + 1
                pld.system.notify(sig, 0, [1, 0], 1, op=pld.NotifyOp.AtomicAdd)
        pl.write(bad, [0, 0], wrong)


@pl.jit.host
def rallies(bad: pl.Out[pl.Tensor[[2, 1, 1], pl.INT32]], rounds: pl.Scalar[pl.INT32]):
    data = pld.alloc_window_buffer([8, 128], dtype=pl.INT32)
    cells = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
    for r in pl.range(2):
        ping_pong(bad[r], pld.window(data, [8, 128], dtype=pl.INT32), pld.window(cells, [2, 1], dtype=pl.INT32), rounds, device=r)


@pl.jit
def third(
    x: pl.Tensor[[4, 8], pl.FP32],
    y: pl.Out[pl.Tensor[[4, 8], pl.FP32]],
    win: pld.DistributedTensor[[4, 8], pl.FP32],
    sig: pld.DistributedTensor[[1, 1], pl.INT32],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        me = pld.rank(pld.get_comm_ctx(win))
        if me == 0:
            pld.tensor.put(win, 2, x)
            pld.system.notify(sig, 1, [0, 0], 1, op=pld.NotifyOp.AtomicAdd)
        if me == 1:
            pld.system.wait(sig, [0, 0], 1, cmp=pld.WaitCmp.Ge)
            pl.store(pld.remote_load(win, 2, [0, 0], [4, 8]), [0, 0], y)
        else:
            y[:, :] = x


@pl.jit.host
def through_a_third(x: pl.Tensor[[3, 4, 8], pl.FP32], y: pl.Out[pl.Tensor[[3, 4, 8], pl.FP32]]):
    data = pld.alloc_window_buffer([4, 8], dtype=pl.FP32)
    cells = pld.alloc_window_buffer([1, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        third(x[r], y[r], pld.window(data, [4, 8], dtype=pl.FP32), pld.window(cells, [1, 1], dtype=pl.INT32), device=r)


# many adders and counters -----------------------------------------------------------------------------------------------


@pl.jit
def adders(one: pl.Tensor, y: pl.Out[pl.Tensor], acc: pld.DistributedTensor, sig: pld.DistributedTensor[[1, 1], pl.INT32], total: pl.Scalar[pl.INT32]):
    for _b in pl.spmd(8):
        pld.tensor.put(acc, peer=0, src=one, atomic=pld.AtomicType.Add)
        pld.system.notify(sig, 0, [0, 0], 1, op=pld.NotifyOp.AtomicAdd)
    with pl.at(level=pl.Level.CORE_GROUP):
        if pld.rank(pld.get_comm_ctx(acc)) == 0:
            pld.system.wait(sig, [0, 0], total, cmp=pld.WaitCmp.Ge)
        y[:, :] = acc


@pl.jit.host
def sums(one: pl.Tensor[[4, 40], pl.FP32], y: pl.Out[pl.Tensor[[NR, 4, 40], pl.FP32]]):
    data = pld.alloc_window_buffer([4, 40], dtype=pl.FP32)
    cells = pld.alloc_window_buffer([1, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        adders(one, y[r], pld.window(data, [4, 40], dtype=pl.FP32), pld.window(cells, [1, 1], dtype=pl.INT32), 8 * pld.world_size(), device=r)


@pl.jit
def own_counter(y: pl.Out[pl.Tensor[[1, 2], pl.INT32]], sig: pld.DistributedTensor[[1, 1], pl.INT32]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ctx = pld.get_comm_ctx(sig)
        me = pld.rank(ctx)
        pl.write(y, [0, 0], pl.read(sig, [0, 0]))
        for _i in pl.range(4):
            pld.system.notify(sig, (me + 1) % pld.nranks(ctx), [0, 0], 1, op=pld.NotifyOp.AtomicAdd)
        pld.system.wait(sig, [0, 0], 4, cmp=pld.WaitCmp.Ge)
        pld.system.notify(sig, peer=me, offsets=[0, 0], value=-4, op=pld.NotifyOp.AtomicAdd)
        pl.write(y, [0, 1], pl.read(sig, [0, 0]))


@pl.jit.host
def counters(y: pl.Out[pl.Tensor[[NR, 1, 2], pl.INT32]]):
    cells = pld.alloc_window_buffer([1, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        own_counter(y[r], pld.window(cells, [1, 1], dtype=pl.INT32), device=r)


# groups -----------------------------------------------------------------------------------------------------------------


@pl.jit
def swap(
    x: pl.Tensor[[64], pl.FP32],
    y: pl.Out[pl.Tensor[[64], pl.FP32]],
    win: pld.DistributedTensor[[1, 64], pl.FP32],
    sig: pld.DistributedTensor[[1, 1], pl.INT32],
    peer: pl.Scalar[pl.INT32],
    me: pl.Out[pl.Tensor[[1], pl.INT32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        pld.tensor.put(win, peer, pl.reshape(x, [1, 64]))
        pld.system.notify(sig, peer, [0, 0], 1, op=pld.NotifyOp.AtomicAdd)
        pld.system.wait(sig, [0, 0], 1, cmp=pld.WaitCmp.Ge)
        y[:] = pl.reshape(win, [64])
        pl.write(me, [0], pld.rank(pld.get_comm_ctx(win)))


@pl.jit.host
def two_groups(
    x: pl.Tensor[[3, 64], pl.FP32], ya: pl.Out[pl.Tensor[[3, 64], pl.FP32]], yb: pl.Out[pl.Tensor[[3, 64], pl.FP32]], me: pl.Out[pl.Tensor[[2, 3, 1], pl.INT32]]
):
    first = pld.alloc_window_buffer([64], dtype=pl.FP32)
    first_cells = pld.alloc_window_buffer([1, 1], dtype=pl.INT32)
    second = pld.alloc_window_buffer([64], dtype=pl.FP32)
    second_cells = pld.alloc_window_buffer([1, 1], dtype=pl.INT32)
    for r in pl.range(2):
        swap(x[r], ya[r], pld.window(first, [64], dtype=pl.FP32), pld.window(first_cells, [1, 1], dtype=pl.INT32), 1 - r, me[0, r], device=r)
    for r in pl.range(1, 3):
        swap(x[r], yb[r], pld.window(second, [64], dtype=pl.FP32), pld.window(second_cells, [1, 1], dtype=pl.INT32), 2 - r, me[1, r], device=r)


# values that outlive a wait ---------------------------------------------------------------------------------------------


@pl.jit
def carried(
    x: pl.Tensor[[8, 16], pl.FP32],
    y: pl.Out[pl.Tensor[[8, 16], pl.FP32]],
    win: pld.DistributedTensor[[128, 16], pl.FP32],
    sig: pld.DistributedTensor[[16, 1], pl.INT32],
):
    """Tiles go round; each rank adds up what passes. How often to wait stands in memory."""
    ctx = pld.get_comm_ctx(win)
    n = pld.nranks(ctx)
    after = (pld.rank(ctx) + 1) % n
    with pl.at(level=pl.Level.CORE_GROUP):
        passing = pl.load(x, [0, 0], [8, 16])
        first = pl.mul(passing, 0.5)
        total = pl.add(passing, 0.0)
        for i in pl.range(n - 1):
            pld.remote_store(passing, win, after, [8 * i, 0])
            pld.system.notify(sig, after, [i, 0], pl.cast(i, pl.INT32) + 2, op=pld.NotifyOp.AtomicAdd)
            if i % 2 == 0:
                pld.system.wait(sig, [i, 0], pl.cast(i, pl.INT32) + 2, cmp=pld.WaitCmp.Ge)
                seen = pl.read(sig, [i, 0])
            else:
                pld.system.wait(sig, [i, 0], 1, cmp=pld.WaitCmp.Ge)
                seen = pl.read(sig, [i, 0])
            passing = pl.load(win, [8 * (pl.cast(seen, pl.INDEX) - 2), 0], [8, 16])
            total = pl.add(total, passing)
        pl.store(pl.sub(total, first), [0, 0], y)


@pl.jit.host
def go_round(x: pl.Tensor[[NR, 8, 16], pl.FP32], y: pl.Out[pl.Tensor[[NR, 8, 16], pl.FP32]]):
    data = pld.alloc_window_buffer([128, 16], dtype=pl.FP32)
    cells = pld.alloc_window_buffer([16, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        carried(x[r], y[r], pld.window(data, [128, 16], dtype=pl.FP32), pld.window(cells, [16, 1], dtype=pl.INT32), device=r)


# waits in blocks --------------------------------------------------------------------------------------------------------

BLOCKS = 6


@pl.jit
def crossed(y: pl.Out[pl.Tensor[[BLOCKS, 1], pl.INT32]], sig: pld.DistributedTensor[[BLOCKS, 1], pl.INT32], silent: pl.Scalar[pl.INT32]):
    ctx = pld.get_comm_ctx(sig)
    after = (pld.rank(ctx) + 1) % pld.nranks(ctx)
    for b in pl.spmd(BLOCKS):
        pld.system.notify(sig, after, [BLOCKS - 1 - b, 0], pl.cast(b, pl.INT32) - silent + 1, op=pld.NotifyOp.AtomicAdd)
        pld.system.wait(sig, [b, 0], 1, cmp=pld.WaitCmp.Ge)
        pl.write(y, [b, 0], pl.read(sig, [b, 0]))


@pl.jit
def chained(
    y: pl.Out[pl.Tensor[[BLOCKS, 4], pl.INT32]],
    win: pld.DistributedTensor[[BLOCKS + 1, 4], pl.INT32],
    sig: pld.DistributedTensor[[BLOCKS + 1, 1], pl.INT32],
):
    """Each block waits for the one after it, and the last one for nobody; what they hand on grows, and what a block has before it waits it has after."""
    ctx = pld.get_comm_ctx(sig)
    after = (pld.rank(ctx) + 1) % pld.nranks(ctx)
    for b in pl.spmd(BLOCKS):
        own = pl.add(pl.load(win, [BLOCKS, 0], [1, 4]), pl.cast(b, pl.INT32))
        if b < BLOCKS - 1:
            pld.system.wait(sig, [b, 0], 1, cmp=pld.WaitCmp.Ge)
        total = pl.add(own, pl.load(win, [b, 0], [1, 4]))
        pl.store(total, [b, 0], y)
        if b > 0:
            pld.remote_store(total, win, after, [b - 1, 0])
            pld.system.notify(sig, after, [b - 1, 0], 1, op=pld.NotifyOp.Set)


@pl.jit.host
def all_chained(y: pl.Out[pl.Tensor[[NR, BLOCKS, 4], pl.INT32]]):
    data = pld.alloc_window_buffer([BLOCKS + 1, 4], dtype=pl.INT32)
    cells = pld.alloc_window_buffer([BLOCKS + 1, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        chained(y[r], pld.window(data, [BLOCKS + 1, 4], dtype=pl.INT32), pld.window(cells, [BLOCKS + 1, 1], dtype=pl.INT32), device=r)


@pl.jit.host
def all_crossed(y: pl.Out[pl.Tensor[[NR, BLOCKS, 1], pl.INT32]], silent: pl.Scalar[pl.INT32]):
    cells = pld.alloc_window_buffer([BLOCKS, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        crossed(y[r], pld.window(cells, [BLOCKS, 1], dtype=pl.INT32), silent, device=r)
