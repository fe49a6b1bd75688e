"""A loop whose step turns out to be 0."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
Z = np.array([0], np.int64)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, z: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        step = pl.cast(pl.read(z, [0]), pl.INDEX)
        t = pl.load(x, [0, 0], [8, 16])
        for k in pl.range(0, 8, step):
            t = t + 1.0
        pl.store(t, [0, 0], out)


def mistake() -> object:
    return kernel(X, Z, OUT)
