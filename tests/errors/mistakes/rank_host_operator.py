import numpy as np

import tilejit.language as pl
import tilejit.language.distributed as pld
from tilejit.runtime import DistributedConfig, RunConfig

RANKS = RunConfig(distributed_config=DistributedConfig([0, 1]))


@pl.jit.host
def host(x: pl.Tensor[[2, 4], pl.FP32], y: pl.Out[pl.Tensor[[2, 4], pl.FP32]]):
    for r in pl.range(pld.world_size()):
        y[r] = x[r] + 1.0


def mistake():
    host(np.zeros((2, 4), np.float32), np.zeros((2, 4), np.float32), config=RANKS)
