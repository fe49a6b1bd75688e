import numpy as np

import tilejit.language as pl

OUTPUTS = [np.full((8, 16), 7, np.float32)]


@pl.jit
def kernel(x: pl.Tensor, where: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        column = pl.cast(pl.read(where, [0]), pl.INDEX)
        value = pl.read(x, [0, column])
        pl.store(pl.mul(pl.load(x, [0, 0], [8, 16]), value), [0, 0], out)


def mistake():
    kernel(np.ones((8, 16), np.float32), np.array([16], np.int32), OUTPUTS[0])
