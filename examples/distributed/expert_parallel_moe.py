"""Expert-parallel mixture of experts: tokens are dispatched to the ranks of their experts, computed there, and combined back."""

import torch

import tilejit.language as pl
import tilejit.language.distributed as pld
from tilejit.runtime import DistributedConfig, RunConfig
from tilejit.testing import on_device

RANKS, T, D = 4, 8, 16


@pl.jit
def moe(
    x: pl.Tensor[[T, D], pl.FP32],
    expert: pl.Tensor[[T, 1], pl.INT32],
    weight: pl.Tensor[[D, D], pl.FP32],
    y: pl.Out[pl.Tensor[[T, D], pl.FP32]],
    inbox: pld.DistributedTensor[[RANKS * T, D], pl.FP32],
    done: pld.DistributedTensor[[RANKS * T, D], pl.FP32],
    sig: pld.DistributedTensor[[RANKS, 1], pl.INT32],
    me: pl.Scalar[pl.INT32],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        for t in pl.range(T):  # dispatch: token t of this rank has a row of its own in every inbox
            pld.tensor.put(inbox, pl.read(expert, [t, 0]), x, [me * T + t, 0], [t, 0], [1, D])
        pld.tensor.barrier(sig)
        done[:, :] = pl.maximum(pl.matmul(inbox, weight), 0.0)
        pld.tensor.barrier(sig)
        for t in pl.range(T):  # combine
            pld.tensor.get(y, pl.read(expert, [t, 0]), done, [t, 0], [me * T + t, 0], [1, D])
        pld.tensor.barrier(sig)


@pl.jit.host
def layer(
    x: pl.Tensor[[RANKS, T, D], pl.FP32],
    expert: pl.Tensor[[RANKS, T, 1], pl.INT32],
    weight: pl.Tensor[[RANKS, D, D], pl.FP32],
    y: pl.Out[pl.Tensor[[RANKS, T, D], pl.FP32]],
):
    boxes = pld.alloc_window_buffer([RANKS * T, D], dtype=pl.FP32)
    results = pld.alloc_window_buffer([RANKS * T, D], dtype=pl.FP32)
    cells = pld.alloc_window_buffer([RANKS, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        inbox = pld.window(boxes, [RANKS * T, D], dtype=pl.FP32)
        done = pld.window(results, [RANKS * T, D], dtype=pl.FP32)
        moe(x[r], expert[r], weight[r], y[r], inbox, done, pld.window(cells, [RANKS, 1], dtype=pl.INT32), r, device=r)


if __name__ == "__main__":
    torch.manual_seed(0)
    x, weight = torch.randn(RANKS, T, D), torch.randn(RANKS, D, D)
    expert = torch.randint(0, RANKS, (RANKS, T, 1), dtype=torch.int32)
    y = on_device(layer)(x, expert, weight, config=RunConfig(distributed_config=DistributedConfig(list(range(RANKS)))))
    chosen = weight[expert.flatten().long()]
    alone = torch.relu(torch.bmm(x.reshape(-1, 1, D), chosen)).reshape(RANKS, T, D)
    torch.testing.assert_close(y, alone, rtol=1e-4, atol=1e-4)
    print("OK")
