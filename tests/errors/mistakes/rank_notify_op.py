import numpy as np

import tilejit.language as pl
import tilejit.language.distributed as pld
from tilejit.runtime import DistributedConfig, RunConfig

RANKS = RunConfig(distributed_config=DistributedConfig([0, 1]))


@pl.jit
def rank_step(y: pl.Out[pl.Tensor[[1, 1], pl.INT32]], sig: pld.DistributedTensor[[4, 1], pl.INT32]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pld.system.notify(sig, 0, [0, 0], 1, op=2)


@pl.jit.host
def host(y: pl.Out[pl.Tensor[[2, 1, 1], pl.INT32]]):
    cells = pld.alloc_window_buffer([4, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        rank_step(y[r], pld.window(cells, [4, 1], dtype=pl.INT32), device=r)


def mistake():
    host(np.zeros((2, 1, 1), np.int32), config=RANKS)
