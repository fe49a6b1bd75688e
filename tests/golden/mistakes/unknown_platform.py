import numpy as np

import tilejit.language as pl
from tilejit.runtime import RunConfig

OUTPUTS = [np.full((8, 16), 7, np.float32)]


@pl.jit
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + 1.0


def mistake():
    kernel(np.ones((8, 16), np.float32), OUTPUTS[0], config=RunConfig(platform="cpuu"))
