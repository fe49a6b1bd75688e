"""Ring attention: each rank has a block of queries, keys and values; keys and values go round, and the softmax is kept running."""

import torch

import tilejit.language as pl
import tilejit.language.distributed as pld
from tilejit.runtime import DistributedConfig, RunConfig
from tilejit.testing import on_device

RANKS, ROWS, D = 4, 16, 32


@pl.jit
def attend(
    q: pl.Tensor[[ROWS, D], pl.FP32],
    k: pl.Tensor[[ROWS, D], pl.FP32],
    v: pl.Tensor[[ROWS, D], pl.FP32],
    y: pl.Out[pl.Tensor[[ROWS, D], pl.FP32]],
    ring: pld.DistributedTensor[[RANKS * 2 * ROWS, D], pl.FP32],
    sig: pld.DistributedTensor[[RANKS, 1], pl.INT32],
    me: pl.Scalar[pl.INT32],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        after = (me + 1) % RANKS
        ring[0:ROWS, :] = k
        ring[ROWS : 2 * ROWS, :] = v
        top = pl.full([ROWS, 1], dtype=pl.FP32, value=-1e30)
        total = pl.full([ROWS, 1], dtype=pl.FP32, value=0.0)
        acc = pl.full([ROWS, D], dtype=pl.FP32, value=0.0)
        for step in pl.range(RANKS):
            at = step * 2 * ROWS
            if step > 0:  # the block that the rank before had one step ago
                pld.system.wait(sig, [step, 0], 1, cmp=pld.WaitCmp.Ge)
            if step < RANKS - 1:
                pld.tensor.put(ring, after, ring, [at + 2 * ROWS, 0], [at, 0], [2 * ROWS, D])
                pld.system.notify(sig, after, [step + 1, 0], 1, op=pld.NotifyOp.Set)
            keys = pl.slice(ring, [ROWS, D], [at, 0])
            values = pl.slice(ring, [ROWS, D], [at + ROWS, 0])
            scores = pl.matmul(q, keys, b_trans=True) * D**-0.5
            new = pl.maximum(top, pl.row_max(scores))
            weights = pl.exp(pl.row_expand_sub(scores, new))
            shrink = pl.exp(top - new)
            total = total * shrink + pl.row_sum(weights)
            acc = pl.row_expand_mul(acc, shrink) + pl.matmul(weights, values)
            top = new
        y[:, :] = pl.row_expand_div(acc, total)


@pl.jit.host
def attention(
    q: pl.Tensor[[RANKS, ROWS, D], pl.FP32],
    k: pl.Tensor[[RANKS, ROWS, D], pl.FP32],
    v: pl.Tensor[[RANKS, ROWS, D], pl.FP32],
    y: pl.Out[pl.Tensor[[RANKS, ROWS, D], pl.FP32]],
):
    blocks = pld.alloc_window_buffer([RANKS * 2 * ROWS, D], dtype=pl.FP32)
    cells = pld.alloc_window_buffer([RANKS, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        ring = pld.window(blocks, [RANKS * 2 * ROWS, D], dtype=pl.FP32)
        attend(q[r], k[r], v[r], y[r], ring, pld.window(cells, [RANKS, 1], dtype=pl.INT32), r, device=r)


if __name__ == "__main__":
    torch.manual_seed(0)
    q, k, v = (torch.randn(RANKS, ROWS, D) for _ in range(3))
    y = on_device(attention)(q, k, v, config=RunConfig(distributed_config=DistributedConfig(list(range(RANKS)))))
    keys, values, queries = (item.reshape(1, RANKS * ROWS, D) for item in (k, v, q))
    alone = torch.nn.functional.scaled_dot_product_attention(queries, keys, values)
    torch.testing.assert_close(y.reshape(1, RANKS * ROWS, D), alone, rtol=1e-4, atol=1e-5)
    print("OK")
