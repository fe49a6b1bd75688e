import numpy as np

import tilejit.language as pl
import tilejit.language.distributed as pld
from tilejit.runtime import DistributedConfig, RunConfig

RANKS = RunConfig(distributed_config=DistributedConfig([0, 1]))


@pl.jit.host
def host(y: pl.Out[pl.Tensor[[2, 4], pl.FP32]]):
    buf = pld.alloc_window_buffer(64)
    pld.system.wait(pld.window(buf, [4], dtype=pl.INT32), [0], 1, cmp=pld.WaitCmp.Ge)


def mistake():
    host(np.zeros((2, 4), np.float32), config=RANKS)
