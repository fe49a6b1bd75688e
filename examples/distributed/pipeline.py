"""A pipeline of two stages: rank 0 computes the first layer of each micro-batch and hands it to rank 1, two slots deep."""

import torch

import tilejit.language as pl
import tilejit.language.distributed as pld
from tilejit.runtime import DistributedConfig, RunConfig
from tilejit.testing import on_device

BATCHES, ROWS, D, SLOTS = 6, 8, 32, 2


@pl.jit
def first(
    x: pl.Tensor[[BATCHES * ROWS, D], pl.FP32],
    weight: pl.Tensor[[D, D], pl.FP32],
    slots: pld.DistributedTensor[[SLOTS * ROWS, D], pl.FP32],
    sig: pld.DistributedTensor[[2, 1], pl.INT32],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        for b in pl.range(BATCHES):
            if b >= SLOTS:  # a slot is free once rank 1 has used what was in it
                pld.system.wait(sig, [1, 0], b - SLOTS + 1, cmp=pld.WaitCmp.Ge)
            hidden = pl.maximum(pl.matmul(pl.slice(x, [ROWS, D], [b * ROWS, 0]), weight), 0.0)
            pld.remote_store(hidden, slots, 1, [b % SLOTS * ROWS, 0])
            pld.system.notify(sig, 1, [0, 0], 1, op=pld.NotifyOp.AtomicAdd)


@pl.jit
def second(
    y: pl.Out[pl.Tensor[[BATCHES * ROWS, D], pl.FP32]],
    weight: pl.Tensor[[D, D], pl.FP32],
    slots: pld.DistributedTensor[[SLOTS * ROWS, D], pl.FP32],
    sig: pld.DistributedTensor[[2, 1], pl.INT32],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        for b in pl.range(BATCHES):
            pld.system.wait(sig, [0, 0], b + 1, cmp=pld.WaitCmp.Ge)
            y[b * ROWS : (b + 1) * ROWS, :] = pl.matmul(pl.slice(slots, [ROWS, D], [b % SLOTS * ROWS, 0]), weight)
            pld.system.notify(sig, 0, [1, 0], 1, op=pld.NotifyOp.AtomicAdd)


@pl.jit.host
def stages(
    x: pl.Tensor[[BATCHES * ROWS, D], pl.FP32],
    weights: pl.Tensor[[2, D, D], pl.FP32],
    y: pl.Out[pl.Tensor[[BATCHES * ROWS, D], pl.FP32]],
):
    data = pld.alloc_window_buffer([SLOTS * ROWS, D], dtype=pl.FP32)
    cells = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
    slots = pld.window(data, [SLOTS * ROWS, D], dtype=pl.FP32)
    sig = pld.window(cells, [2, 1], dtype=pl.INT32)
    first(x, weights[0], slots, sig, device=0)
    second(y, weights[1], slots, sig, device=1)


if __name__ == "__main__":
    torch.manual_seed(0)
    x, weights = torch.randn(BATCHES * ROWS, D), torch.randn(2, D, D)
    y = on_device(stages)(x, weights, config=RunConfig(distributed_config=DistributedConfig([0, 1])))
    torch.testing.assert_close(y, torch.relu(x @ weights[0]) @ weights[1], rtol=1e-4, atol=1e-3)
    print("OK")
