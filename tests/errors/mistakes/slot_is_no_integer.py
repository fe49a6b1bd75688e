"""A slot of a declared buffer that is a fraction."""

import numpy as np

import tilejit.language as pl

X = np.arange(128, dtype=np.float32).reshape(8, 16)
N = np.array([0], np.int32)
OUT = np.full((8, 16), 7, np.float32)


@pl.jit
def kernel(x: pl.Tensor, n: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(2):
            t: pl.Tile[[4, 16], pl.FP32, pl.MemRef("ub", slots=2)[pl.cast(i, pl.FP32)]] = pl.load(x, [i * 4, 0], [4, 16])
            pl.store(t, [i * 4, 0], out)


def mistake() -> object:
    return kernel(X, N, OUT)
