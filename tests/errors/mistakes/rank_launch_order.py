import numpy as np

import tilejit.language as pl
import tilejit.language.distributed as pld
from tilejit.runtime import DistributedConfig, RunConfig

RANKS = RunConfig(distributed_config=DistributedConfig([0, 1]))


@pl.jit
def first(y: pl.InOut[pl.Tensor[[1], pl.INT32]], sig: pld.DistributedTensor[[1, 1], pl.INT32], me: pl.Scalar[pl.INT32]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pld.system.notify(sig, 1 - me, [0, 0], 1, op=pld.NotifyOp.AtomicAdd)
        pld.system.wait(sig, [0, 0], 1, cmp=pld.WaitCmp.Ge)
        pl.write(y, [0], pl.read(y, [0]) + 1)


@pl.jit.host
def host(y: pl.InOut[pl.Tensor[[1], pl.INT32]]):
    cells = pld.alloc_window_buffer([1, 1], dtype=pl.INT32)
    for r in pl.range(2):
        first(y, pld.window(cells, [1, 1], dtype=pl.INT32), r, device=r)


def mistake():
    host(np.zeros(1, np.int32), config=RANKS)
