import numpy as np

import tilejit.language as pl

OUTPUTS = [np.full((8, 16), 7, np.float32)]


@pl.jit
def kernel(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 16])
        for i in pl.unroll(pl.cast(pl.read(n, [0]), pl.INDEX)):
            t = pl.add(t, 1.0)
        pl.store(t, [0, 0], out)


def mistake():
    kernel(np.ones((8, 16), np.float32), np.array([4], np.int32), OUTPUTS[0])
