import numpy as np

import tilejit.language as pl

OUTPUTS = [np.full((8, 16), 7, np.float32)]


@pl.jit
def kernel(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.device_assert(pl.read(n, [0]) > 0, "n must be positive")
        out[:] = x + 1.0


def mistake():
    kernel(np.ones((8, 16), np.float32), np.array([-1], np.int32), OUTPUTS[0])
