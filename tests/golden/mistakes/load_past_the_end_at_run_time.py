import numpy as np

import tilejit.language as pl

OUTPUTS = [np.full((8, 16), 7, np.float32)]


@pl.jit
def kernel(x: pl.Tensor, where: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        row = pl.cast(pl.read(where, [0]), pl.INDEX)
        t = pl.load(x, [row, 0], [4, 16])
        pl.store(t, [0, 0], out)


def mistake():
    kernel(np.ones((8, 16), np.float32), np.array([6], np.int32), OUTPUTS[0])
