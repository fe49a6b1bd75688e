"""A tensor-parallel MLP: each rank has a slice of the hidden layer; the partial results are summed by an allreduce in the kernel."""

import torch

import tilejit.language as pl
import tilejit.language.distributed as pld
from tilejit.runtime import DistributedConfig, RunConfig
from tilejit.testing import on_device

NR = pl.dynamic("NR")
H = pl.dynamic("H")
ROWS, D = 16, 32


@pl.jit
def mlp(
    x: pl.Tensor[[ROWS, D], pl.FP32],
    up: pl.Tensor[[D, H], pl.FP32],
    down: pl.Tensor[[H, D], pl.FP32],
    y: pl.Out[pl.Tensor[[ROWS, D], pl.FP32]],
    part: pld.DistributedTensor[[ROWS, D], pl.FP32],
    sig: pld.DistributedTensor[[NR, 1], pl.INT32],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        hidden = pl.maximum(pl.matmul(x, up), 0.0)
        part[:, :] = pl.matmul(hidden, down)
        part = pld.tensor.allreduce(part, sig)
        y[:, :] = part


@pl.jit.host
def layer(
    x: pl.Tensor[[ROWS, D], pl.FP32],
    up: pl.Tensor[[NR, D, H], pl.FP32],
    down: pl.Tensor[[NR, H, D], pl.FP32],
    y: pl.Out[pl.Tensor[[NR, ROWS, D], pl.FP32]],
):
    parts = pld.alloc_window_buffer([ROWS, D], dtype=pl.FP32)
    cells = pld.alloc_window_buffer([NR, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        part = pld.window(parts, [ROWS, D], dtype=pl.FP32)
        sig = pld.window(cells, [NR, 1], dtype=pl.INT32)
        mlp(x, up[r], down[r], y[r], part, sig, device=r)


if __name__ == "__main__":
    torch.manual_seed(0)
    for ranks in (1, 2, 4):
        x, up, down = torch.randn(ROWS, D), torch.randn(D, 64), torch.randn(64, D)
        ups = torch.stack(up.chunk(ranks, dim=1)).contiguous()
        downs = torch.stack(down.chunk(ranks, dim=0)).contiguous()
        y = on_device(layer)(x, ups, downs, config=RunConfig(distributed_config=DistributedConfig(list(range(ranks)))))
        alone = torch.relu(x @ up) @ down
        for r in range(ranks):
            torch.testing.assert_close(y[r], alone, rtol=1e-4, atol=1e-3)
    print("OK")
